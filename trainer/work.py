"""The work of a training step on one rank: floating-point operations and memory traffic, for `zmon.work`.

Operations are counted in matrix products only, 2 for each multiplication and addition, as the peak of a device counts
them. Sums of embedding rows, activations and optimizers are left out: they take the time of their memory traffic.

Memory traffic is a model without caches, in which each use of an array moves it once. Shapes: B samples of this rank, N
rows looked up in its shards, C the sum of the columns of all tables, P dense parameters.
    rows         the numbers of N rows read by the lookup; read and written by the update, with one number of state
    vectors      B · C numbers of pooled vectors and their gradients: each written and read once
    activations  each width of the dense layers, B times: written and read in forward, read in backward; its gradient
                 written and read
    parameters   P read in forward and in backward; the gradient cleared, written and read; the update reads and writes
                 P and each number of state
Ids, labels and buffers of collectives are left out.
"""

from __future__ import annotations

from itertools import pairwise

import torch

from trainer.config import DTYPES, Config
from trainer.optimizers import ELEMENTWISE

_USES_OF_ROWS, _USES_OF_VECTORS, _USES_OF_ACTIVATIONS, _USES_OF_PARAMETERS = 3, 4, 5, 7
_DENSE_STATE = {"sgd": 0, "adagrad": 1, "adam": 2}  # numbers of state for each dense parameter


class StepWork:
    """The work of one step of this configuration."""

    def __init__(self, config: Config, device: torch.device) -> None:
        model, dims = config.model, config.embedding.dims
        num_vectors, columns = len(dims) + 1, sum(dims)
        bottom = [model.dense_features, *model.bottom, max(dims)]
        if model.interaction == "dot":
            width = dims[0] + num_vectors * len(dims) // 2
            interaction_flops = 4 * num_vectors**2 * dims[0]  # one product in forward, one in backward
            between: list[int] = [num_vectors**2]
            parameters = 0
        else:
            width = max(dims) + columns
            interaction_flops = 3 * model.cross_layers * 4 * width * model.cross_rank
            between = [model.cross_rank, width] * model.cross_layers
            parameters = model.cross_layers * (2 * width * model.cross_rank + width)
        top = [width, *model.top, 1]
        layers = [*pairwise(bottom), *pairwise(top)]  # their widths
        forward_flops = sum(2 * before * after for before, after in layers)
        first_layer_flops = 2 * bottom[0] * bottom[1]  # backward leaves them out: dense features get no gradient
        self._sample_flops = 3 * forward_flops - first_layer_flops + interaction_flops
        parameters += sum((before + 1) * after for before, after in layers)
        itemsize: int = DTYPES[config.train.dtype].itemsize
        state_bytes = 0 if config.optimizer.embedding == "sgd" else 2 * itemsize  # of a row, or of a weight
        elementwise = config.optimizer.embedding in ELEMENTWISE
        self._number_bytes = _USES_OF_ROWS * config.weight_bytes + (state_bytes if elementwise else 0)
        self._row_bytes = 0 if elementwise else state_bytes
        sample_numbers = _USES_OF_VECTORS * columns + _USES_OF_ACTIVATIONS * sum((*bottom, *between, *top))
        parameter_uses = _USES_OF_PARAMETERS + 2 * _DENSE_STATE[config.optimizer.dense]
        self._sample_bytes, self._step_bytes = sample_numbers * itemsize, parameter_uses * parameters * itemsize
        self.dtype = _dtype(config, device)

    def flops(self, samples: int) -> int:
        """Return the operations of a step with these samples."""
        return self._sample_flops * samples

    def memory_traffic(self, samples: int, lookups: int, numbers: int) -> int:
        """Return the bytes that a step reads and writes. `numbers` are those in the rows of all lookups."""
        rows = self._row_bytes * lookups + self._number_bytes * numbers
        return self._step_bytes + self._sample_bytes * samples + rows


def _dtype(config: Config, device: torch.device) -> str:
    """Return the dtype of the matrix products, as `zmon.work` takes it."""
    if config.train.computes_in_bfloat16(device.type):
        return "bfloat16"
    rounds = device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if rounds and config.train.dtype == "float32" else config.train.dtype
