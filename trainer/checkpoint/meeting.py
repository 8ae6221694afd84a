"""How the ranks agree about a checkpoint, in whatever thread: by keys in the store by which they have met.

No collective: one in the background would stand in the queues and flight records of the training's own, where whoever
looks for a hang takes a rank that writes slowly for one that has not come. Keys cost a round trip to the store, once a
checkpoint.
"""

import errno
import pickle
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any, TypeVar, cast

import torch.distributed as dist

from trainer.checkpoint.rows import Refused
from trainer.errors import CheckpointError

SHORTEST_SECONDS = 0.05  # to ask for a key that has been there for long

A = TypeVar("A")
B = TypeVar("B")


class Meeting:
    """The ranks of a job, in a store of their own. They call `agree` equally often, in one thread at a time."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout_seconds: float) -> None:
        self.store, self.rank, self.size, self.timeout_seconds = store, rank, size, timeout_seconds
        self.round = 0

    def agree(self, what: str, next_step: str, here: Callable[[], A], first: Callable[[Sequence[A]], B]) -> B:
        """Each rank does `here`; of what came of it, by rank, rank 0 makes one thing with `first`, and all return that.

        Where anything goes wrong on any of them, all raise the same CheckpointError, `what` and `next_step` in it.
        """
        self.round += 1
        try:
            cause, decided = self._decided(_tried(self.rank, here), first)
        except dist.DistError as error:
            cause = f"rank {self.rank} does not reach the store of the job ({_line(error)})"
        if cause:
            raise CheckpointError(what, cause, next_step)
        return cast(B, decided)

    def _decided(self, told: tuple[str, Any], first: Callable[[Sequence[A]], B]) -> tuple[str, Any]:
        self.store.set(self._key(self.rank), pickle.dumps(told))
        if self.rank == 0:
            told_by_all = self._all()
            causes = [cause for cause, _ in told_by_all if cause]
            decided = (causes[0], None) if causes else _tried(0, partial(first, [came for _, came in told_by_all]))
            self.store.set(self._key("decided"), pickle.dumps(decided))
            self._forget(self.round - 1)  # all have read that, or they would not be in this round
        seconds = 2 * self.timeout_seconds  # rank 0 may itself wait for the slowest
        return self._read(self._key("decided"), seconds) or (self._late([0]), None)

    def _all(self) -> Sequence[tuple[str, Any]]:
        until = monotonic() + self.timeout_seconds
        told = [self._read(self._key(rank), max(until - monotonic(), SHORTEST_SECONDS)) for rank in range(self.size)]
        late = [rank for rank, one in enumerate(told) if one is None]
        return [(self._late(late), None)] if late else [one for one in told if one is not None]

    def _read(self, key: str, seconds: float) -> tuple[str, Any] | None:
        """What went wrong and what came of it; None where it does not come in time."""
        try:
            self.store.wait([key], timedelta(seconds=seconds))
        except dist.DistStoreError:
            return None
        found: tuple[str, Any] = pickle.loads(self.store.get(key))
        return found

    def _late(self, ranks: Sequence[int]) -> str:
        names = ", ".join(map(str, ranks))
        return f"nothing was heard of rank {names} for {self.timeout_seconds:g} s (checkpoint.timeout_seconds)"

    def _forget(self, number: int) -> None:
        for who in (*range(self.size), "decided"):
            self.store.delete_key(f"{number}/{who}")

    def _key(self, who: int | str) -> str:
        return f"{self.round}/{who}"


def _tried(rank: int, do: Callable[[], A]) -> tuple[str, A | None]:
    """What went wrong, "" for nothing, and what came of it."""
    try:
        return "", do()
    except Refused as error:
        return str(error), None
    except Exception as error:
        return f"rank {rank}: {_reason(error)}", None


def _reason(error: BaseException) -> str:
    """In a line. What torch says of a failed write is no help; the failure itself is behind that."""
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError) and behind.strerror:
            where = f": {behind.filename}" if behind.filename and behind.errno != errno.ENOSPC else ""
            return f"{behind.strerror}{where}"
        behind = behind.__cause__ or behind.__context__
    return _line(error)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
