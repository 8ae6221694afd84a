"""One worker: it trains on the pieces that it takes, and never waits for another worker.

A second thread pulls the worker's dense layers and the center towards each other every few steps, while training goes
on. zmon watches the worker like a rank: it has a number, steps and phases, but no process group.

Shapes: B samples, F tables, D columns, U distinct rows of a piece, P dense parameters.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing import Queue

import zmon
from bench.asynchronous.readers import Piece, Slowed, take
from bench.asynchronous.shared import Shared, dense_model, flatten, logits
from trainer.config import Config
from trainer.optimizers import DenseOptimizer
from trainer.schedule import rate_factor

_GAP_STEPS = 5  # of a worker between two averagings (EASGD's communication period)
_BETA = 0.9  # of EASGD: a pull moves by this share ÷ workers, as in the paper's experiments
_MAX_STALENESS = 1000  # updates; higher ones count as this many


@dataclass(frozen=True)
class Trained:
    """The work of one worker."""

    begin: float  # of its first step, on the monotonic clock
    end: float
    samples: int
    ids: int
    averagings: int
    missed: tuple[int, ...]  # rows that it updated, by the number of updates that each missed; see `Staleness`


def work(
    number: int, workers: int, has_slow_worker: bool, config: Config, shared: Shared, pieces: Queue[Piece | None],
    ready: Any, results: Queue[Trained],
) -> None:  # fmt: skip
    """Train until no piece is left. All workers start together, once all are `ready` (a barrier)."""
    torch.set_num_threads(1)
    zmon.attach()
    worker = Worker(config, shared, workers)
    ready.wait()
    begin = time.monotonic()
    samples = 0
    ids = 0
    own_pieces = take(pieces)
    batches = Slowed(own_pieces) if has_slow_worker and number == workers - 1 else own_pieces
    with worker.averaging:
        while worker.step(batches):
            samples += worker.last_samples
            ids += worker.last_ids
    end = time.monotonic()
    missed = tuple(worker.staleness.counts.tolist())
    results.put(Trained(begin, end, samples, ids, worker.averaging.num_pulls, missed))


class Worker:
    """A replica of the dense layers, and the training step on shared tables."""

    def __init__(self, config: Config, shared: Shared, workers: int) -> None:
        self._config, self._shared = config, shared
        self._model = dense_model(config)
        self._weights, gradients = flatten(self._model)
        parameter = nn.Parameter(self._weights)
        parameter.grad = gradients
        self._gradients = gradients
        self._optimizer = DenseOptimizer(config.optimizer, parameter)
        self.staleness = Staleness(shared.updates)
        self.averaging = Averaging(self._weights, shared.center, _BETA / workers if workers > 1 else 1.0)
        self.last_samples = self.last_ids = 0

    def step(self, batches: Any) -> bool:
        """Train on the next piece. Return False if there is none."""
        shared = self._shared
        optimizer = self._config.optimizer
        with zmon.step():
            zmon.phase("data")
            piece = next(batches, None)
            if piece is None:
                return False
            batch = piece.batch
            rate = rate_factor(self._config.schedule, piece.step)
            self.last_samples, self.last_ids = len(batch.labels), len(batch.ids)
            zmon.phase("embedding")
            bags = shared.bags(batch)
            self.staleness.read(bags.rows)
            vectors = shared.tables.lookup(bags).requires_grad_()
            zmon.phase("forward")
            loss = F.binary_cross_entropy_with_logits(logits(self._model, batch, vectors), batch.labels)
            zmon.phase("backward")
            self._gradients.zero_()
            loss.backward()
            zmon.phase("optimizer")
            assert vectors.grad is not None
            merged = shared.tables.merge(bags, vectors.grad)
            shared.tables.apply(merged, rate * optimizer.embedding_learning_rate)
            self.staleness.update(merged.rows)
            self._optimizer.step(rate * optimizer.dense_learning_rate)
            self.averaging.count_step()
            zmon.work(samples=self.last_samples, lookups=self.last_ids)
        return True


@dataclass
class Staleness:
    """The updates of a row by other workers between a worker's look-up of it and its own update, which misses them.

    Counts are not exact: like the rows, they are updated without locks.
    """

    updates: Tensor  # (R,) int32, of each row so far; shared by all workers
    counts: Tensor = field(default_factory=lambda: torch.zeros(_MAX_STALENESS + 1, dtype=torch.int64))

    def __post_init__(self) -> None:
        self._at_look_up = torch.zeros_like(self.updates)  # (R,) of this worker; valid for rows of the last look-up

    def read(self, rows: Tensor) -> None:
        """Note the updates of the rows that are looked up."""
        self._at_look_up[rows] = self.updates[rows]

    def update(self, rows: Tensor) -> None:
        """Count the updates that these distinct rows (U,) missed, and their own."""
        missed = (self.updates[rows] - self._at_look_up[rows]).clamp(0, _MAX_STALENESS)
        self.counts += torch.bincount(missed, minlength=len(self.counts))
        self.updates[rows] += 1


class Averaging:
    """A thread that pulls a worker's dense layers and the center towards each other, without locks.

    A single worker only writes its layers to the center.
    """

    def __init__(self, weights: Tensor, center: Tensor, share: float) -> None:
        """`share` is the part of their difference by which a pull moves both."""
        self.num_pulls = 0
        self._num_steps = 0
        self._weights = weights
        self._center = center
        self._share = share
        self._wanted = threading.Semaphore(0)
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name="averaging", daemon=True)

    def count_step(self) -> None:
        """Count a step of the worker. Every _GAP_STEPS steps, the thread averages."""
        self._num_steps += 1
        if self._num_steps % _GAP_STEPS == 0:
            self._wanted.release()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._has_ended = True
        self._wanted.release()
        self._thread.join()
        self._pull()

    def _run(self) -> None:
        while self._wanted.acquire() and not self._has_ended:
            self._pull()

    def _pull(self) -> None:
        difference = (self._weights - self._center).mul_(self._share)
        self._center.add_(difference)
        if self._share < 1:
            self._weights.sub_(difference)
        self.num_pulls += 1
