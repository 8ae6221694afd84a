"""The work of a training step on one rank: floating-point operations and memory traffic, for `zmon.work`.

Operations are counted in matrix products only, 2 for each multiplication and addition, as the peak of a device counts
them. Sums of embedding rows, activations and optimizers are left out: they take the time of their memory traffic.

Memory traffic is a model without caches, in which each use of an array moves it once. Ids, labels and buffers of
collectives are left out.
"""

from itertools import pairwise

import torch

from trainer.config import DTYPES, Config
from trainer.optimizers import ELEMENTWISE

# How often a step reads or writes a number:
_USES_OF_ROWS = 3  # of embedding rows: read by the lookup; read and written by the update
_USES_OF_VECTORS = 4  # of pooled vectors: written and read; their gradients are written and read
_USES_OF_ACTIVATIONS = 5  # written and read in forward, read in backward; their gradients are written and read
_USES_OF_PARAMETERS = 7  # read in forward and in backward, updated; their gradients are cleared, written and read
_USES_OF_STATE = 2  # of optimizers: read and written by the update
_DENSE_STATE = {"sgd": 0, "adagrad": 1, "adam": 2}  # numbers of state for each dense parameter


class StepWork:
    """The work of one step of this configuration."""

    def __init__(self, config: Config, device: torch.device) -> None:
        model, dims = config.model, config.embedding.dims
        num_vectors = len(dims) + 1  # of a sample: one of each table, and that of the bottom MLP
        bottom = [model.dense_features, *model.bottom, max(dims)]
        if model.interaction == "dot":
            width = dims[0] + num_vectors * len(dims) // 2
            interaction_flops = 4 * num_vectors**2 * dims[0]  # one product in forward, one in backward
            interaction_widths: list[int] = [num_vectors**2]
            parameters = 0
        else:
            width = max(dims) + sum(dims)
            interaction_flops = 3 * model.cross_layers * 4 * width * model.cross_rank
            interaction_widths = [model.cross_rank, width] * model.cross_layers
            parameters = model.cross_layers * (2 * width * model.cross_rank + width)
        top = [width, *model.top, 1]
        layers = [*pairwise(bottom), *pairwise(top)]  # widths of the input and the output of each layer
        forward_flops = sum(2 * inputs * outputs for inputs, outputs in layers)
        first_layer_flops = 2 * bottom[0] * bottom[1]  # backward leaves them out: dense features get no gradient
        self._sample_flops = 3 * forward_flops - first_layer_flops + interaction_flops
        parameters += sum((inputs + 1) * outputs for inputs, outputs in layers)
        itemsize: int = DTYPES[config.train.dtype].itemsize
        state_bytes = 0 if config.optimizer.embedding == "sgd" else _USES_OF_STATE * itemsize  # of a row or a weight
        elementwise = config.optimizer.embedding in ELEMENTWISE
        self._number_bytes = _USES_OF_ROWS * config.weight_bytes + (state_bytes if elementwise else 0)
        self._row_bytes = 0 if elementwise else state_bytes
        activations = sum((*bottom, *interaction_widths, *top))
        self._sample_bytes = (_USES_OF_VECTORS * sum(dims) + _USES_OF_ACTIVATIONS * activations) * itemsize
        parameter_uses = _USES_OF_PARAMETERS + _USES_OF_STATE * _DENSE_STATE[config.optimizer.dense]
        self._step_bytes = parameter_uses * parameters * itemsize
        self.dtype = _dtype(config, device)

    def flops(self, samples: int) -> int:
        """Return the operations of a step with these samples."""
        return self._sample_flops * samples

    def memory_traffic(self, samples: int, lookups: int, numbers: int) -> int:
        """Return the bytes that a step reads and writes; `numbers` counts the numbers in the rows of all lookups."""
        rows = self._row_bytes * lookups + self._number_bytes * numbers
        return self._step_bytes + self._sample_bytes * samples + rows


def _dtype(config: Config, device: torch.device) -> str:
    """Return the dtype of the matrix products, as `zmon.work` takes it."""
    if config.train.computes_in_bfloat16(device.type):
        return "bfloat16"
    allows_tf32 = device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if allows_tf32 and config.train.dtype == "float32" else config.train.dtype
