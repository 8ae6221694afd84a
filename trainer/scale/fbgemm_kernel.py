"""Lookup and exact update of rows by FBGEMM's table-batched kernels, which update in the backward of the lookup.

The import needs fbgemm_gpu and takes seconds, so kernel_choice.py imports this module only if it is used. The kernels
need float32 and a D that is a multiple of 4.

Shapes: G bags, D columns. API: SplitTableBatchedEmbeddingBagsCodegen of FBGEMM 1.8.
"""

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
from torch import Tensor

from trainer.kernel import Bags, Kernel
from trainer.optimizers import OptimizerConfig
from trainer.routing import INT32_ROWS

_RULES = {
    "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
    "sgd": EmbOptimType.EXACT_SGD,
}
_LOCATIONS = {
    "cpu": (EmbeddingLocation.HOST, ComputeDevice.CPU),
    "cuda": (EmbeddingLocation.DEVICE, ComputeDevice.CUDA),
}


class FbgemmKernel(Kernel):
    """One FBGEMM table for all rows of this rank. All rows have the same D, so they need no separate tables."""

    def __init__(self, num_rows: int, dim: int, device: torch.device, optimizer: OptimizerConfig) -> None:
        index_type = torch.int32 if num_rows <= INT32_ROWS else torch.int64
        self._fbgemm = SplitTableBatchedEmbeddingBagsCodegen(
            [(num_rows, dim, *_LOCATIONS[device.type])],
            optimizer=_RULES[optimizer.embedding],
            eps=optimizer.embedding_epsilon,
            pooling_mode=PoolingMode.SUM,
            bounds_check_mode=BoundsCheckMode.FATAL,  # by default a row that does not exist counts as row 0
            device=device,
            embedding_table_index_type=index_type,
            embedding_table_offset_type=index_type,
        )
        (self.weight,) = self._fbgemm.split_embedding_weights()
        states = self._fbgemm.split_optimizer_states()
        self.state = states[0][0] if states else torch.zeros(num_rows, device=device)  # sgd has none
        self._learning_rate: float | None = None
        self._looked_up: Tensor | None = None

    def begin(self, step: int, learning_rate: float) -> None:
        """Set the learning rate of the next update. FBGEMM reads it in the lookup."""
        self._set_rate(learning_rate)

    def _set_rate(self, learning_rate: float) -> None:
        if learning_rate != self._learning_rate:
            self._fbgemm.set_learning_rate(learning_rate)
            self._learning_rate = learning_rate

    def lookup(self, bags: Bags) -> Tensor:
        """Return the sum of the rows of each bag (G, D), 0 for an empty bag."""
        self._looked_up = self._fbgemm(bags.rows, bags.offsets)
        return self._looked_up.detach()

    def update(self, bags: Bags, gradient: Tensor, learning_rate: float) -> None:
        """Update each row of the last lookup once, given the gradient (G, D) of the sums.

        If the lookup had another learning rate, it is repeated.
        """
        if learning_rate != self._learning_rate:
            self._set_rate(learning_rate)
            self.lookup(bags)
        assert self._looked_up is not None
        self._looked_up.backward(gradient)
        self._looked_up = None
