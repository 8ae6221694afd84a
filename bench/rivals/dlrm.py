"""The model of facebookresearch/dlrm, its all-to-all, and its row-wise AdaGrad, trained as its script does.

A rank reads the ids of the whole batch for its own tables, so that no ids are sent. Offsets are computed in advance.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable
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

_UNUSED = ("sklearn", "sklearn.metrics", "torch.utils.tensorboard", "onnx", "tqdm")  # imported, but not by the step


def steps(path: Path, shape: Shape, source: RepeatingSource, world: World, optimizer: str) -> Callable[[], float]:
    """Return a function that trains one step. It returns the mean loss of this rank's samples."""
    script, distributed = _import_dlrm(path, world)
    config = shape.config()
    pairs = (shape.tables + 1) * shape.tables // 2
    top = (shape.dim + pairs, *shape.top, 1)
    np.random.seed(1)
    model = script.DLRM_Net(
        shape.dim, np.array([shape.rows] * shape.tables), np.array((DENSE_FEATURES, *shape.bottom, shape.dim)),
        np.array(top), arch_interaction_op="dot", sigmoid_top=len(top) - 2,
    )  # fmt: skip
    with torch.no_grad():
        local = range(shape.tables)[model.local_emb_slice] if world.size > 1 else range(shape.tables)
        for number, embedding in zip(local, model.emb_l, strict=True):
            embedding.weight.copy_(table(shape, config.train.seed, number))
    bottom_layers, top_layers = layers(config)
    set_layers(model.bot_l, bottom_layers)
    set_layers(model.top_l, top_layers)
    parameters = [
        # Its all-to-all returns gradients of the mean over a rank's samples, not over all. AdaGrad divides them away.
        {"params": [*model.emb_l.parameters()], "lr": RATE / world.size if optimizer == "sgd" else RATE},
        {"params": [*model.bot_l.parameters()]},
        {"params": [*model.top_l.parameters()]},
    ]
    if world.size > 1:
        model.bot_l, model.top_l = DistributedDataParallel(model.bot_l), DistributedDataParallel(model.top_l)
    if optimizer == "sgd":
        training: Any = torch.optim.SGD(parameters, lr=RATE)
    else:
        training = script.RowWiseSparseAdagrad.RWSAdagrad(parameters, lr=RATE, eps=EPSILON)
    batches = [_batch(source, step, shape, distributed) for step in range(NUM_BATCHES)]
    number = 0

    def step() -> float:
        nonlocal number
        dense, offsets, ids, labels = batches[number % NUM_BATCHES]
        number += 1
        loss = model.loss_fn(model(dense, offsets, ids), labels)
        training.zero_grad()
        loss.backward()
        training.step()
        return float(loss.item())

    return step


def _batch(
    source: RepeatingSource, step: int, shape: Shape, distributed: ModuleType
) -> tuple[Tensor, list[Tensor], list[Tensor], Tensor]:
    """Return dense features, offsets and ids of the whole batch, and the labels of this rank."""
    batch = source.batch(step, 0, shape.global_batch)
    ids = list(batch.ids.split(batch.lengths.sum(dim=1).tolist()))
    offsets = [lengths.cumsum(0) - lengths for lengths in batch.lengths]
    share = shares(shape.global_batch, max(1, distributed.my_size))[max(0, distributed.my_rank)]
    return batch.dense, offsets, ids, batch.labels[share.start : share.start + share.size, None]


def _import_dlrm(path: Path, world: World) -> tuple[ModuleType, ModuleType]:
    """Import the script and its exchange, which uses the process group that exists."""
    replaced = {name: sys.modules.get(name) for name in _UNUSED}
    sys.modules.update({name: MagicMock() for name in _UNUSED})
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
    print_ = builtins.print
    distributed = importlib.import_module("extend_distributed")  # replaces print
    script = importlib.import_module("dlrm_s_pytorch")
    builtins.print = print_
    for name, module in replaced.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module
    vars(distributed).update(  # as its `init_distributed` does
        my_rank=world.rank, my_size=world.size, my_local_rank=world.local_rank, my_local_size=world.local_size,
        alltoall_supported=True, myreq=distributed.Request(),
    )  # fmt: skip
    return script, distributed
