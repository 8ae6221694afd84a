"""The work of a training step on one rank: floating-point operations and memory traffic, for `zmon.work`.

Operations are counted in matrix products only, 2 for each multiplication and addition, as the peak of a device counts
them. Sums of embedding rows, activations and optimizers are left out: they take the time of their memory traffic.

Memory traffic is a model without caches, in which each use of an array moves it once. Ids, labels and buffers of
collectives are left out.
"""

import torch
from torch import nn

from trainer.config import DTYPES, Config
from trainer.dense import DenseModel
from trainer.optimizers import ELEMENTWISE

# How often a step reads or writes a number:
_USES_OF_ROWS = 3  # of embedding rows: read by the lookup; read and written by the update
_USES_OF_VECTORS = 4  # of pooled vectors: written and read; their gradients are written and read
_USES_OF_ACTIVATIONS = 5  # written and read in forward, read in backward; their gradients are written and read
_USES_OF_PARAMETERS = 7  # read in forward and in backward, updated; their gradients are cleared, written and read
_USES_OF_STATE = 2  # of optimizers: read and written by the update
_DENSE_STATE = {"sgd": 0, "adagrad": 1, "adam": 2}  # numbers that an optimizer keeps for each dense parameter


class StepWork:
    """The work of one step of this configuration."""

    def __init__(self, config: Config, model: DenseModel, device: torch.device) -> None:
        dims = config.embedding.dims
        layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
        forward_flops = sum(2 * layer.weight.numel() for layer in layers)
        first_layer_flops = 2 * layers[0].weight.numel()  # backward leaves them out: dense features get no gradient
        self._sample_flops: int = 3 * forward_flops - first_layer_flops
        activations = config.model.dense_features + model.interaction.width  # inputs of the two MLPs
        activations += sum(layer.out_features for layer in layers)
        if config.model.interaction == "dot":
            num_vectors = len(dims) + 1  # of a sample: one of each table, and that of the bottom MLP
            self._sample_flops += 4 * num_vectors**2 * dims[0]  # one product in forward, one in backward
            activations += num_vectors**2

        itemsize: int = DTYPES[config.train.dtype].itemsize
        self._sample_bytes: int = (_USES_OF_VECTORS * sum(dims) + _USES_OF_ACTIVATIONS * activations) * itemsize
        num_parameters = sum(parameter.numel() for parameter in model.parameters())
        parameter_uses = _USES_OF_PARAMETERS + _USES_OF_STATE * _DENSE_STATE[config.optimizer.dense]
        self._step_bytes: int = parameter_uses * num_parameters * itemsize
        state_bytes = 0 if config.optimizer.embedding == "sgd" else _USES_OF_STATE * itemsize  # of a row or an element
        elementwise = config.optimizer.embedding in ELEMENTWISE
        self._row_bytes = 0 if elementwise else state_bytes
        self._element_bytes = _USES_OF_ROWS * config.weight_bytes + (state_bytes if elementwise else 0)
        self.dtype = _dtype(config, device)

    def flops(self, num_samples: int) -> int:
        """Return the operations of a step with these samples."""
        return self._sample_flops * num_samples

    def memory_traffic(self, num_samples: int, num_lookups: int, num_elements: int) -> int:
        """Return the bytes that a step reads and writes; `num_elements` are the elements of the rows of all lookups."""
        rows = self._row_bytes * num_lookups + self._element_bytes * num_elements
        return self._step_bytes + self._sample_bytes * num_samples + rows


def _dtype(config: Config, device: torch.device) -> str:
    """Return the dtype of the matrix products, as `zmon.work` takes it."""
    if config.train.computes_in_bfloat16(device.type):
        return "bfloat16"
    allows_tf32 = device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if allows_tf32 and config.train.dtype == "float32" else config.train.dtype
