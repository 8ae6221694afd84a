"""The bundled trainer, its phases stretched and struck from outside by `saboteur`; the trainer itself is untouched."""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from saboteur import Saboteur, linger  # type: ignore[import-not-found]

import trainer.train
import zmon
from trainer.__main__ import main
from trainer.batch import Batch

SETTINGS = ("train.global_batch=128", "train.progress_every=1000000")
BYTES_PER_DIM = 1664  # that one of four ranks sends to each other one in a step: 2 × 32 samples × 6.5 tables × 4


class Collectives:
    """`torch.distributed` as the training step sees it: what it asks for may be left out, or come in another size."""

    def __init__(self, saboteur: Any) -> None:
        self._saboteur = saboteur

    def __getattr__(self, name: str) -> Any:
        return getattr(dist, name)

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """The gradients'."""
        if self._saboteur.skips():
            return
        brought = self._saboteur.brings(len(tensor))
        dist.all_reduce(tensor if brought == len(tensor) else torch.cat([tensor, tensor]))


class Source:
    """The trainer's samples, late, hot or spoilt."""

    def __init__(self, source: Any, saboteur: Any, placement: Any) -> None:
        self._source, self._saboteur, self._placement = source, saboteur, placement

    def batch(self, step: int, start: int, size: int) -> Batch:
        """As the source's own."""
        self._saboteur.load()
        batch: Batch = self._source.batch(step, start, size)
        if (hot := self._saboteur.hot()) is not None:
            batch = more_ids(batch, self._placement[hot], times_hot(len(self._placement)))
        if self._saboteur.spoilt():
            batch = dataclasses.replace(batch, dense=batch.dense * float("nan"))
        return batch


def times_hot(ranks: int) -> int:
    """How many times the ids make a shard receive three times the mean of all.

    A bag is 16 bytes of ids, 8 of length, 32 of gradient and 32 of pooled vector with the settings above: 88.
    """
    return round(1 + 2 * 88 / 16 / (1 - 3 / ranks))


def more_ids(batch: Batch, tables: Any, factor: int) -> Batch:
    """So many times the ids in the bags of some tables."""
    times = torch.ones(len(batch.lengths), dtype=torch.int64)
    times[list(tables)] = factor
    bags = batch.ids.split(batch.lengths.sum(dim=1).tolist())
    ids = torch.cat([bag.repeat_interleave(int(n)) for bag, n in zip(bags, times, strict=True)])
    return dataclasses.replace(batch, ids=ids, lengths=batch.lengths * times[:, None])


def stretch(built: Any, saboteur: Any) -> None:
    """Put the saboteur between a trainer and its samples, its model and its optimizer."""
    built.source = Source(built.source, saboteur, built.placement)
    forward = built.dense.forward

    def computing(*args: Any) -> Any:
        with saboteur.compute():
            return forward(*args)

    built.dense.forward = computing


def between_steps(built: Any, saboteur: Any) -> None:
    """An evaluation or a checkpoint, when it is time for one."""
    if (seconds := saboteur.evaluates()) is not None:
        if seconds:
            with zmon.activity("eval"):
                time.sleep(seconds)
        dist.barrier()
    if (seconds := saboteur.saves()) is not None:
        with zmon.activity("checkpoint"):
            torch.save(built.dense.state_dict(), saboteur.checkpoint(seconds))
        dist.barrier()


def train() -> None:
    """The trainer's own command line, with a step around its step."""
    saboteur = Saboteur()
    step = trainer.train.Trainer.step

    def struck(self: Any, number: int) -> tuple[float, float]:
        if number == 0:
            stretch(self, saboteur)
        saboteur.begin_step()
        if saboteur.order("batch"):
            self.optimizer.param_groups[0]["lr"] = 0.01
        result: tuple[float, float] = step(self, number)
        between_steps(self, saboteur)
        if not saboteur.last_step and saboteur.leaves():
            linger()
        return result

    trainer.train.Trainer.step = struck
    vars(trainer.train)["dist"] = Collectives(saboteur)
    sys.argv = ["trainer", "--preset", "demo", "--steps", str(saboteur.last_step)]
    dim = min(max(8, saboteur.exchange_bytes // BYTES_PER_DIM), 256)
    sys.argv += [word for setting in (*SETTINGS, f"embedding.dim={dim}") for word in ("--set", setting)]
    main()


train()
