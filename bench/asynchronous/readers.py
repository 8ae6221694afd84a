"""The processes that generate samples for all workers, and a slow worker's way to take them.

A global batch of the synchronous trainer is divided into one piece for each worker. Any worker takes the next piece, so
that a slow one takes fewer.
"""

from __future__ import annotations

import multiprocessing.context
import signal
import time
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import torch
from torch.multiprocessing import Queue

from trainer.batch import Batch, StepBatch, shares
from trainer.config import Config
from trainer.loader import Source


class Piece(NamedTuple):
    """The samples that a worker trains on in one step of its own."""

    step: int  # of the synchronous trainer, whose global batch has these samples; sets the learning rate
    batch: Batch


def start_readers(
    context: multiprocessing.context.SpawnContext, source: Source, config: Config, workers: int
) -> tuple[list[multiprocessing.context.SpawnProcess], Queue[Piece | None]]:
    """Start a reader for each worker. Return them and the queue of pieces, which ends with None for each worker."""
    pieces: Queue[Piece | None] = context.Queue(config.loader.depth * workers)
    steps, global_batch = config.train.steps, config.train.global_batch
    readers = [
        context.Process(target=_read, args=(reader, workers, source, steps, global_batch, pieces), daemon=True)
        for reader in range(workers)
    ]
    for reader in readers:
        reader.start()
    return readers, pieces


def _read(
    reader: int, readers: int, source: Source, steps: int, global_batch: int, pieces: Queue[Piece | None]
) -> None:
    """Put this reader's piece of each global batch into the queue, then wait to be ended.

    Workers map the memory of a piece when they take it, so its reader must still be there.
    """
    torch.set_num_threads(1)
    share = shares(global_batch, readers)[reader]
    for step in range(steps):
        pieces.put(Piece(step, source.batch(step, share.start, share.size)))
    pieces.put(None)
    signal.pause()


def take(pieces: Queue[Piece | None]) -> Iterator[Piece]:
    """Take pieces from the queue and yield them, until a None. Every worker takes one None."""
    while (piece := pieces.get()) is not None:
        yield piece


B = TypeVar("B", bound=StepBatch | Piece)


class Slowed(Iterator[B]):
    """Batches for a slow machine: before each batch, it sleeps for as long as this thread computed since the last one.

    So a step takes twice its own time. Time in which the thread waits, as in collectives, is not doubled.
    """

    def __init__(self, batches: Iterator[B]) -> None:
        self._batches = batches
        self._computed = time.thread_time()

    def __next__(self) -> B:
        time.sleep(time.thread_time() - self._computed)
        following = next(self._batches)
        self._computed = time.thread_time()
        return following
