"""The coordination of the ranks for a checkpoint, in any thread, by keys in the job's store.

It uses no collectives. A collective in the background would appear in the queues and flight records of the training.
There a rank that writes slowly would look like a rank that hangs. Keys cost a few round trips to the store for each
checkpoint. Values are plain data (msgspec), because any process that reaches the store can write to it.
"""

import errno
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, TypeVar, cast
from uuid import uuid4

import msgspec
import torch
import torch.distributed as dist

from trainer.errors import CheckpointError
from trainer.scale.checkpoint.rows import Mismatch

MIN_WAIT_SECONDS = 0.05  # enough to read a key that already exists

A = TypeVar("A")  # the result of a rank
B = TypeVar("B")  # what rank 0 makes of all results


class _Outcome(NamedTuple):
    """The result of a function, or the reason of its failure."""

    error: str  # empty: it did not fail
    value: Any = None


class Coordinator:
    """One rank's view of all ranks of a job, which use a separate store.

    All ranks call `agree` equally often. A rank calls it in one thread at a time.
    """

    def __init__(self, store: dist.Store, rank: int, size: int, timeout_seconds: float) -> None:
        self.store, self.rank, self.size, self.timeout_seconds = store, rank, size, timeout_seconds
        self.round = 0

    def agree(self, failure: str, next_step: str, local: Callable[[], A], combine: Callable[[Sequence[A]], B]) -> B:
        """Call `local` on every rank and `combine` on rank 0 with all results; return its result on all ranks.

        Results travel as plain data: a Struct arrives as a list or a dict.
        If anything fails on any rank, all ranks raise the same CheckpointError with `failure` and `next_step`.
        """
        self.round += 1
        try:
            error, decision = self._decide(_attempt(self.rank, local), combine)
        except dist.DistError as store_error:
            error = f"rank {self.rank} cannot reach the store of the job ({_one_line(store_error)})"
        if error:
            raise CheckpointError(failure, error, next_step)
        return cast(B, decision)

    def _decide(self, outcome: _Outcome, combine: Callable[[Sequence[A]], B]) -> _Outcome:
        """Send the outcome of this rank, and return the decision of rank 0."""
        self.store.set(self._key(self.rank), msgspec.msgpack.encode(outcome))
        if self.rank == 0:
            outcomes = self._gather()
            failed = [outcome for outcome in outcomes if outcome.error]
            values = [outcome.value for outcome in outcomes]
            decision = failed[0] if failed else _attempt(0, partial(combine, values))
            self.store.set(self._key("decided"), msgspec.msgpack.encode(decision))
            for name in (*range(self.size), "decided"):  # all ranks have read them, or they would not be in this round
                self.store.delete_key(f"{self.round - 1}/{name}")
        seconds = 2 * self.timeout_seconds  # rank 0 itself may wait for the slowest rank
        return self._read(self._key("decided"), seconds) or self._timed_out([0])

    def _gather(self) -> Sequence[_Outcome]:
        """Return the outcomes of all ranks, or a single error if some of them are late."""
        deadline = monotonic() + self.timeout_seconds
        outcomes = [
            self._read(self._key(rank), max(deadline - monotonic(), MIN_WAIT_SECONDS)) for rank in range(self.size)
        ]
        late = [rank for rank, outcome in enumerate(outcomes) if outcome is None]
        return [self._timed_out(late)] if late else [outcome for outcome in outcomes if outcome is not None]

    def _read(self, key: str, seconds: float) -> _Outcome | None:
        """Return the outcome in the store; None if the key does not appear in time."""
        try:
            self.store.wait([key], timedelta(seconds=seconds))
        except dist.DistStoreError:
            return None
        try:
            return msgspec.msgpack.decode(self.store.get(key), type=_Outcome)
        except msgspec.MsgspecError as error:
            return _Outcome(f"{key} in the store of the job is not a value of a rank ({_one_line(error)})")

    def _timed_out(self, ranks: Sequence[int]) -> _Outcome:
        limit = f"{self.timeout_seconds:g} s (checkpoint.timeout_seconds)"
        return _Outcome(f"rank {', '.join(map(str, ranks))} did not answer within {limit}")

    def _key(self, name: int | str) -> str:
        return f"{self.round}/{name}"


def new_store() -> dist.Store:
    """Return a part of the job's store with a new prefix. All ranks must call it together.

    torchrun keeps the store when it restarts the ranks, with the keys of the previous ranks.
    """
    assert dist.group.WORLD is not None
    store = dist.group.WORLD.get_group_store().clone()  # waiting for a key blocks all users of a connection
    return dist.PrefixStore(random_bytes().hex(), store)


def random_bytes() -> bytes:
    """Return 16 random bytes, the same on all ranks, which must call it together."""
    device = "cpu" if dist.get_backend() == "gloo" else "cuda"
    random = torch.tensor(list(uuid4().bytes), dtype=torch.uint8, device=device)
    dist.broadcast(random, 0)
    return bytes(random.tolist())


def _attempt(rank: int, function: Callable[[], Any]) -> _Outcome:
    try:
        return _Outcome("", function())
    except Mismatch as error:
        return _Outcome(str(error))
    except Exception as error:
        return _Outcome(f"rank {rank}: {_reason(error)}")


def _reason(error: BaseException) -> str:
    """Return the error in one line. If an OSError caused it, return that, because torch's message does not help."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            file = f": {cause.filename}" if cause.filename and cause.errno != errno.ENOSPC else ""
            return f"{cause.strerror}{file}"
        cause = cause.__cause__ or cause.__context__
    return _one_line(error)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
