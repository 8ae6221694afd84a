"""Reads the batches of a rank ahead of training, in a thread; and says which batches a run has.

Samples repeat for ever, so a global batch may reach from one epoch into the next. Only the last one of a run can be
smaller: with fewer samples than ranks some ranks get none, and take part in the step all the same.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from queue import SimpleQueue
from typing import Self

from trainer.batch import Batch, Source, shares
from trainer.errors import require

CLOSE_SECONDS = 5  # how long closing waits for the batch being read; a source that hangs must not hang the rank


@dataclass(frozen=True)
class LoaderConfig:
    depth: int = 2  # batches read ahead of the one trained on; 0: read when asked, no thread

    def __post_init__(self) -> None:
        require(self.depth >= 0, "loader.depth", self.depth, "0 or more")


@dataclass(frozen=True)
class Extent:
    """How many global batches a run has, and how large each is."""

    steps: int | None  # None: until stopped
    global_batch: int
    last_batch: int  # samples of the last one, 1 to global_batch

    @classmethod
    def of_steps(cls, steps: int | None, global_batch: int) -> Self:
        """So many full batches; None: without end."""
        return cls(steps, global_batch, global_batch)

    @classmethod
    def of_epochs(cls, epochs: int, num_samples: int, global_batch: int) -> Self:
        """Each sample so many times, both 1 or more."""
        steps = -(-epochs * num_samples // global_batch)
        return cls(steps, global_batch, epochs * num_samples - (steps - 1) * global_batch)

    def numbers(self, first: int) -> Iterator[int]:
        """The steps from `first` on."""
        return count(first) if self.steps is None else iter(range(first, self.steps))

    def size(self, step: int) -> int:
        """Samples in the global batch of this step."""
        return self.global_batch if self.steps is None or step < self.steps - 1 else self.last_batch


@dataclass(frozen=True)
class Loaded:
    """A step's global batch, as far as this rank has to do with it."""

    step: int
    global_batch: int  # samples of it over all ranks
    batch: Batch  # this rank's share


class Loader:
    """An iterator over the batches of a rank, from step `first` to the end of the run.

    An exception of the source is raised where its batch would have come. The thread never waits to hand a batch
    over: it waits for room before it reads one, and what it ends with, whatever that is, comes last.
    """

    def __init__(self, source: Source, extent: Extent, rank: int, num_ranks: int, depth: int, first: int = 0) -> None:
        self._batches = _batches(source, extent, rank, num_ranks, first)
        self._end: BaseException | None = None
        self._room = threading.Semaphore(depth)
        self._ready: SimpleQueue[Loaded | BaseException] = SimpleQueue()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if depth:
            self._thread = threading.Thread(target=self._read_ahead, name="loader", daemon=True)
            self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Loaded:
        if self._end is not None:
            raise self._end
        if self._thread is None:
            return next(self._batches)
        loaded = self._ready.get()
        if isinstance(loaded, BaseException):
            self._end = loaded
            raise loaded
        self._room.release()
        return loaded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Read no further; what was read ahead is dropped."""
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
        except BaseException as end:  # StopIteration is one too
            self._ready.put(end)


def _batches(source: Source, extent: Extent, rank: int, num_ranks: int, first: int) -> Iterator[Loaded]:
    for step in extent.numbers(first):
        size = extent.size(step)
        share = shares(size, num_ranks)[rank]
        yield Loaded(step, size, source.batch(step, share.start, share.size))
