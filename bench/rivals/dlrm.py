"""The model of facebookresearch/dlrm, its all-to-all, and its row-wise AdaGrad, trained as its script does.

Every rank has the ids of the whole batch and looks up those of its own tables, so that no ids are sent. The batches and
their offsets are computed before the first step.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from bench.dlrm import DENSE_FEATURES, NUM_BATCHES, RepeatingSource, Shape
from bench.rivals.start import EPSILON, RATE, layers, set_layers, table
from trainer.batch import shares
from trainer.world import World

# What the script imports, but no step uses.
_UNUSED = ("sklearn", "sklearn.metrics", "torch.utils.tensorboard", "onnx", "tqdm")


def steps(path: Path, shape: Shape, source: RepeatingSource, world: World, optimizer_name: str) -> Callable[[], float]:
    """Return a function that trains one step. It returns the mean loss of this rank's samples."""
    script = _import_dlrm(path, world)
    config = shape.config()
    pairs = (shape.tables + 1) * shape.tables // 2  # of vectors whose dot products are computed: all tables and dense
    top = (shape.dim + pairs, *shape.top, 1)
    model = script.DLRM_Net(
        shape.dim, np.array([shape.rows] * shape.tables), np.array((DENSE_FEATURES, *shape.bottom, shape.dim)),
        np.array(top), arch_interaction_op="dot", sigmoid_top=len(top) - 2,
    )  # fmt: skip
    with torch.no_grad():
        local = range(shape.tables)[model.local_emb_slice] if world.size > 1 else range(shape.tables)
        for table_number, embedding in zip(local, model.emb_l, strict=True):
            embedding.weight.copy_(table(shape, config.train.seed, table_number))
    bottom_layers, top_layers = layers(config)
    set_layers(model.bot_l, bottom_layers)
    set_layers(model.top_l, top_layers)
    parameters = [
        # Each rank divides its loss by the number of its own samples, so the gradients of the tables, which are summed
        # over ranks, are `world.size` times those of the mean over all samples. AdaGrad cancels a constant factor.
        {"params": [*model.emb_l.parameters()], "lr": RATE / world.size if optimizer_name == "sgd" else RATE},
        {"params": [*model.bot_l.parameters()]},
        {"params": [*model.top_l.parameters()]},
    ]
    if world.size > 1:
        model.bot_l, model.top_l = DistributedDataParallel(model.bot_l), DistributedDataParallel(model.top_l)
    if optimizer_name == "sgd":
        optimizer: Any = torch.optim.SGD(parameters, lr=RATE)
    else:
        optimizer = script.RowWiseSparseAdagrad.RWSAdagrad(parameters, lr=RATE, eps=EPSILON)
    batches = cycle([_batch(source, step, shape, world) for step in range(NUM_BATCHES)])

    def step() -> float:
        dense, offsets, ids, labels = next(batches)
        loss = model.loss_fn(model(dense, offsets, ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _batch(
    source: RepeatingSource, step: int, shape: Shape, world: World
) -> tuple[Tensor, list[Tensor], list[Tensor], Tensor]:
    """Return dense features, offsets and ids of the whole batch, and the labels of this rank."""
    batch = source.batch(step, 0, shape.global_batch)
    ids = list(batch.ids.split(batch.lengths.sum(dim=1).tolist()))
    offsets = [lengths.cumsum(0) - lengths for lengths in batch.lengths]
    share = shares(shape.global_batch, world.size)[world.rank]
    return batch.dense, offsets, ids, batch.labels[share.start : share.start + share.size, None]


def _import_dlrm(path: Path, world: World) -> ModuleType:
    """Import the script, and set its module `extend_distributed` to the process group that exists."""
    stand_ins = {name: MagicMock() for name in _UNUSED if name not in sys.modules}
    sys.modules.update(stand_ins)
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
    print_ = builtins.print
    distributed = importlib.import_module("extend_distributed")  # replaces builtins.print
    script = importlib.import_module("dlrm_s_pytorch")
    builtins.print = print_
    for name in stand_ins:
        del sys.modules[name]
    vars(distributed).update(  # as its `init_distributed` does
        my_rank=world.rank, my_size=world.size, my_local_rank=world.local_rank, my_local_size=world.local_size,
        alltoall_supported=True, myreq=distributed.Request(),
    )  # fmt: skip
    return script
