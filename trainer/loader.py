"""The loader, which reads the batches of a rank from a source ahead of training, and the number of batches of a run.

Samples repeat, so a global batch may reach from one epoch into the next. Only the last batch of a run can be smaller.
If it has fewer samples than there are ranks, some ranks get no samples, but they still take part in the step.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from queue import SimpleQueue
from typing import Protocol, Self

from trainer.batch import Batch, StepBatch, shares

CLOSE_SECONDS = 5  # `close` waits this long for the batch being read, because a source may hang


class Source(Protocol):
    """A source of samples. It is a pure function of its arguments, so that ranks agree without communication."""

    @property
    def num_samples(self) -> int | None:
        """The number of samples; None: they have no end."""

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return samples `start` to `start + size` of the global batch of this step; `size` may be 0."""

    def held_out(self) -> "Source":
        """Return the source of the evaluation samples, which are never trained on."""


@dataclass(frozen=True)
class Extent:
    """The number of global batches of a run, and the size of each."""

    steps: int | None  # None: until stopped
    global_batch: int
    last_batch: int  # samples of the last batch, 1 to global_batch

    @classmethod
    def of_steps(cls, steps: int | None, global_batch: int) -> Self:
        """Return an extent of full batches; `steps` None means without end."""
        return cls(steps, global_batch, global_batch)

    @classmethod
    def of_epochs(cls, epochs: int, num_samples: int, global_batch: int) -> Self:
        """Return the extent in which each sample is used `epochs` times; both numbers are 1 or more."""
        steps = -(-epochs * num_samples // global_batch)
        return cls(steps, global_batch, epochs * num_samples - (steps - 1) * global_batch)

    def steps_from(self, first: int) -> Iterator[int]:
        """Return an iterator over the steps from `first` to the end of the run."""
        return count(first) if self.steps is None else iter(range(first, self.steps))

    def size(self, step: int) -> int:
        """Return the number of samples in the global batch of this step."""
        return self.global_batch if self.steps is None or step < self.steps - 1 else self.last_batch

    def samples(self, steps: int) -> int:
        """Return the number of samples in the first steps, which is the position of the next step's samples."""
        missing = self.global_batch - self.last_batch if steps == self.steps else 0
        return steps * self.global_batch - missing


class Loader:
    """An iterator over the batches of a rank, from step `first` to the end of the run.

    An exception of the source is raised in place of its batch. The thread reads a batch only when the queue has room
    for it. The last item of the queue is the exception that ended the thread, which may be StopIteration.
    """

    def __init__(self, source: Source, extent: Extent, rank: int, num_ranks: int, depth: int, first: int = 0) -> None:
        self._batches = _batches(source, extent, rank, num_ranks, first)
        self._end: BaseException | None = None
        self._room = threading.Semaphore(depth)
        self._ready: SimpleQueue[StepBatch | BaseException] = SimpleQueue()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if depth:
            self._thread = threading.Thread(target=self._read_ahead, name="loader", daemon=True)
            self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StepBatch:
        if self._end is not None:
            raise self._end
        if self._thread is None:
            return next(self._batches)
        item = self._ready.get()
        if isinstance(item, BaseException):
            self._end = item
            raise item
        self._room.release()
        return item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading and drop the batches that were read ahead."""
        self._end = self._end or StopIteration()
        self._closed.set()
        self._room.release()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _read_ahead(self) -> None:
        try:
            while self._room.acquire() and not self._closed.is_set():
                self._ready.put(next(self._batches))
            self._ready.put(StopIteration())
        except BaseException as end:  # includes StopIteration
            self._ready.put(end)


def _batches(source: Source, extent: Extent, rank: int, num_ranks: int, first: int) -> Iterator[StepBatch]:
    for step in extent.steps_from(first):
        size = extent.size(step)
        share = shares(size, num_ranks)[rank]
        yield StepBatch(step, size, source.batch(step, share.start, share.size))
