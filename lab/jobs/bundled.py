"""Run the bundled trainer with a saboteur that lengthens its phases and strikes it; the trainer itself is unchanged."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from hangs import linger  # type: ignore[import-not-found]
from saboteur import Saboteur, hot_factor  # type: ignore[import-not-found]

import trainer.flat
import trainer.scale.run
import zmon
from trainer.__main__ import main
from trainer.batch import Batch
from trainer.train import Trainer

SETTINGS = (
    "train.global_batch=128",
    "train.progress_every=1000000",
    "train.stop_at_nan=false",  # zmon has to report it
    "sharding.kind=table_wise",
    "loader.depth=0",  # no prefetch: a step reads its own input
)
# Bytes per embedding dimension that one of four ranks sends to each other rank in a step:
# 2 × 32 samples × 6.5 tables × 4 bytes.
BYTES_PER_DIM = 1664
# The bytes of an id, of the length of a bag, and of a gradient or pooled vector, with the settings of `train`.
ID_BYTES, LENGTH_BYTES, VECTOR_BYTES = 8, 4, 32


class Collectives:
    """Replaces `torch.distributed` in the dense part. It may leave out an `all_reduce`, or double its size."""

    def __init__(self, saboteur: Any) -> None:
        self._saboteur = saboteur

    def __getattr__(self, name: str) -> Any:
        return getattr(dist, name)

    def all_reduce(self, tensor: torch.Tensor, **options: Any) -> Any:
        """Reduce the gradients, unless the saboteur leaves that out or doubles their size."""
        if self._saboteur.skips():
            return None
        size = self._saboteur.sent_size(len(tensor))
        return dist.all_reduce(tensor if size == len(tensor) else torch.cat([tensor, tensor]), **options)


class BatchSource:
    """The samples of the trainer. The saboteur may delay them, send more to one shard, or replace them by NaN."""

    def __init__(self, source: Any, saboteur: Any) -> None:
        self._source, self._saboteur = source, saboteur
        self.tables: list[list[int]] = []  # the tables of each rank

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return the batch of the trainer's own source, as the saboteur changes it."""
        self._saboteur.load()
        batch: Batch = self._source.batch(step, start, size)
        if (hot := self._saboteur.hot()) is not None:
            batch = more_ids(batch, self.tables[hot], times_hot([len(tables) for tables in self.tables], hot))
        if self._saboteur.is_nan():
            batch = dataclasses.replace(batch, dense=batch.dense * float("nan"))
        return batch


def times_hot(tables: Sequence[int], hot: int) -> int:
    """Return the factor on the number of ids at which a shard receives three times the mean of all ranks.

    `tables` is the number of tables of each rank. A rank receives bags (ids, a length and a gradient) for as many
    samples as there are ranks. It also receives a pooled vector from every table.
    """
    ranks = len(tables)
    pooled = VECTOR_BYTES * sum(tables)
    bag = ID_BYTES + LENGTH_BYTES + VECTOR_BYTES
    others = sum(ranks * number * bag + pooled for rank, number in enumerate(tables) if rank != hot)
    hot_bytes = 3 / ranks * others / (1 - 3 / ranks)
    return round(((hot_bytes - pooled) / (ranks * tables[hot]) - (LENGTH_BYTES + VECTOR_BYTES)) / ID_BYTES)


def more_ids(batch: Batch, tables: Sequence[int], factor: int) -> Batch:
    """Multiply the ids in the bags of some tables by a factor."""
    times = torch.ones(len(batch.lengths), dtype=torch.int64)
    times[list(tables)] = factor
    bags = batch.ids.split(batch.lengths.sum(dim=1).tolist())
    ids = torch.cat([bag.repeat_interleave(int(n)) for bag, n in zip(bags, times, strict=True)])
    return dataclasses.replace(batch, ids=ids, lengths=batch.lengths * times[:, None])


def wrap(built: Trainer, source: BatchSource, saboteur: Any) -> None:
    """Put the saboteur between a trainer and its tables, its model and its optimizer."""
    ranks = built.world.size
    source.tables = [
        [table for table, placed in enumerate(built.placements) if placed.ranks == (rank,)] for rank in range(ranks)
    ]
    lookup = built.tables.lookup
    top = built.model.top
    optimize = built.optimizer.step

    def serve_and_look_up(*args: Any) -> Any:
        saboteur.serve(hot_factor(ranks) if saboteur.hot() == saboteur.rank else 1.0)
        return lookup(*args)

    def compute(*args: Any) -> Any:
        with saboteur.compute():
            return top(*args)

    def optimize_slowly(learning_rate: float) -> None:
        optimize(learning_rate / 2 if saboteur.order("batch") else learning_rate)

    vars(built.tables)["lookup"] = serve_and_look_up
    vars(built.model)["top"] = compute
    vars(built.optimizer)["step"] = optimize_slowly


def evaluate(seconds: float) -> None:
    """Evaluate for this many seconds."""
    with zmon.activity("eval"):
        time.sleep(seconds)


def save(model: Any, file: Any) -> None:
    """Save a checkpoint."""
    with zmon.activity("checkpoint"):
        torch.save(model.state_dict(), file)


def train() -> None:
    """Run the command line of the trainer with the saboteur around each step."""
    saboteur = Saboteur()
    step = Trainer.step
    build = Trainer.__init__
    open_source = trainer.scale.run.open_source
    sources: list[BatchSource] = []

    def open_with_saboteur(*args: Any) -> Any:
        sources.append(BatchSource(open_source(*args), saboteur))
        return sources[0]

    def build_with_saboteur(self: Trainer, *args: Any) -> None:
        build(self, *args)
        wrap(self, sources[0], saboteur)

    def step_with_saboteur(self: Trainer, *args: Any) -> Any:
        saboteur.begin_step()
        result = step(self, *args)
        saboteur.between_steps(evaluate, partial(save, self.model), dist.barrier)
        if not saboteur.last_step and saboteur.leaves():
            linger()
        return result

    vars(sys.modules[main.__module__])["open_source"] = open_with_saboteur
    type.__setattr__(Trainer, "__init__", build_with_saboteur)
    type.__setattr__(Trainer, "step", step_with_saboteur)
    vars(trainer.flat)["dist"] = Collectives(saboteur)
    sys.argv = ["trainer", "--preset", "demo", "--steps", str(saboteur.last_step)]
    dim = min(max(8, saboteur.exchange_bytes // BYTES_PER_DIM), 256)
    settings = [*SETTINGS, f"embedding.dim={dim}"]
    if saboteur.row_memory:  # with rows of each table on each rank, so that all of them read as much
        settings += [f"embedding.memory={saboteur.row_memory}", f"embedding.tier.folder={saboteur.folder}/rows"]
        settings += ["sharding.kind=row_wise"]
    sys.argv += [word for setting in settings for word in ("--set", setting)]
    main()


train()
