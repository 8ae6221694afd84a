"""TorchRec's DLRM, sharded as its planner chooses, with fused row-wise AdaGrad and its training pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from torch import Tensor
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.train_pipeline import TrainPipelineSparseDist
from torchrec.models.dlrm import DLRM, DLRMTrain
from torchrec.optim import RowWiseAdagrad
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter
from torchrec.streamable import Pipelineable

from bench.dlrm import DENSE_FEATURES, NUM_BATCHES, RepeatingSource, Shape
from bench.rivals.start import EPSILON, RATE, layers, set_layers, table
from trainer.batch import shares
from trainer.world import World

_CPU = torch.device("cpu")


@dataclass
class _Batch(Pipelineable):
    """A batch as DLRMTrain takes it. The pipeline asks for the three methods."""

    dense_features: Tensor
    sparse_features: Any
    labels: Tensor

    def to(self, device: torch.device, non_blocking: bool = False) -> _Batch:
        """Return the batch; it is on the CPU."""
        del device, non_blocking
        return self

    def record_stream(self, stream: object) -> None:
        """Do nothing: there are no streams on a CPU."""

    def pin_memory(self) -> _Batch:
        """Return the batch; it stays on the CPU."""
        return self


def steps(shape: Shape, source: RepeatingSource, world: World) -> Callable[[], float]:
    """Return a function that trains one step. It returns the mean loss of this rank's samples."""
    config = shape.config()
    keys = [f"f{number}" for number in range(shape.tables)]
    tables = [
        EmbeddingBagConfig(name=f"t{n}", embedding_dim=shape.dim, num_embeddings=shape.rows, feature_names=[key])
        for n, key in enumerate(keys)
    ]
    collection = EmbeddingBagCollection(tables=tables, device=torch.device("meta"))
    model: Any = DLRMTrain(DLRM(collection, DENSE_FEATURES, [*shape.bottom, shape.dim], [*shape.top, 1], _CPU))
    fused = {"lr": RATE, "eps": EPSILON}
    apply_optimizer_in_backward(RowWiseAdagrad, model.model.sparse_arch.parameters(), fused)
    bottom, top = layers(config)
    set_layers(model.model.dense_arch, bottom)
    set_layers(model.model.over_arch, top)
    _reorder_pairs(model.model.over_arch, shape)
    model = DistributedModelParallel(model, device=_CPU)
    for name, weight in model.state_dict().items():
        if "embedding_bags" in name:
            whole = table(shape, config.train.seed, int(name.split(".")[-2][1:]))
            for shard in weight.local_shards():
                (row, column), (rows, columns) = shard.metadata.shard_offsets, shard.metadata.shard_sizes
                shard.tensor.copy_(whole[row : row + rows, column : column + columns])
    dense = dict(in_backward_optimizer_filter(model.named_parameters()))
    wrapper = KeyedOptimizerWrapper(dense, lambda each: torch.optim.Adagrad(each, lr=RATE, eps=EPSILON))
    optimizer = CombinedOptimizer([model.fused_optimizer, wrapper])
    pipeline = TrainPipelineSparseDist(model, optimizer, _CPU)
    share = shares(shape.global_batch, world.size)[world.rank]

    def batches() -> Iterator[_Batch]:
        for step in cycle(range(NUM_BATCHES)):
            batch = source.batch(step, share.start, share.size)
            yield _Batch(batch.dense, KeyedJaggedTensor(keys, batch.ids, lengths=batch.lengths.flatten()), batch.labels)

    forever = batches()
    return lambda: float(pipeline.progress(forever)[0].item())


def _reorder_pairs(over: torch.nn.Module, shape: Shape) -> None:
    """Reorder the inputs of the top MLP: TorchRec has the pairs of the upper triangle, we those of the lower one."""
    num_vectors = shape.tables + 1
    rows, columns = torch.tril_indices(num_vectors, num_vectors, offset=-1)
    place = {(int(column), int(row)): n for n, (row, column) in enumerate(zip(rows, columns, strict=True))}
    upper = torch.triu_indices(num_vectors, num_vectors, offset=1).T.tolist()
    order = torch.tensor([*range(shape.dim), *(shape.dim + place[a, b] for a, b in upper)])
    first = next(layer for layer in over.modules() if isinstance(layer, torch.nn.Linear))
    with torch.no_grad():
        first.weight.copy_(first.weight[:, order].clone())
