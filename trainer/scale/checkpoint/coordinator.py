"""The coordination of the ranks for a checkpoint, in any thread, by keys in the job's store.

It uses no collectives. A collective in the background would appear in the queues and flight records of the training,
where a rank that writes slowly would look like a rank that hangs. Keys cost one round trip to the store for each
checkpoint. Values are plain data (msgspec), because any process that reaches the store can write to it.
"""

import errno
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any, TypeVar, cast
from uuid import uuid4

import msgspec
import torch
import torch.distributed as dist

from trainer.errors import CheckpointError
from trainer.scale.checkpoint.rows import Mismatch

MIN_WAIT_SECONDS = 0.05  # enough to read a key that already exists

A = TypeVar("A")
B = TypeVar("B")


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
            cause, decision = self._decide(_attempt(self.rank, local), combine)
        except dist.DistError as error:
            cause = f"rank {self.rank} cannot reach the store of the job ({_one_line(error)})"
        if cause:
            raise CheckpointError(failure, cause, next_step)
        return cast(B, decision)

    def _decide(self, result: tuple[str, Any], combine: Callable[[Sequence[A]], B]) -> tuple[str, Any]:
        self.store.set(self._key(self.rank), msgspec.msgpack.encode(result))
        if self.rank == 0:
            results = self._gather()
            causes = [cause for cause, _ in results if cause]
            values = [value for _, value in results]
            decision = (causes[0], None) if causes else _attempt(0, partial(combine, values))
            self.store.set(self._key("decided"), msgspec.msgpack.encode(decision))
            self._delete_keys(self.round - 1)  # all ranks have read them, or they would not be in this round
        seconds = 2 * self.timeout_seconds  # rank 0 itself may wait for the slowest rank
        return self._read(self._key("decided"), seconds) or (self._timed_out([0]), None)

    def _gather(self) -> Sequence[tuple[str, Any]]:
        deadline = monotonic() + self.timeout_seconds
        results = [
            self._read(self._key(rank), max(deadline - monotonic(), MIN_WAIT_SECONDS)) for rank in range(self.size)
        ]
        late = [rank for rank, result in enumerate(results) if result is None]
        return [(self._timed_out(late), None)] if late else [result for result in results if result is not None]

    def _read(self, key: str, seconds: float) -> tuple[str, Any] | None:
        """Return the error, empty for none, and the value; None if the key does not appear in time."""
        try:
            self.store.wait([key], timedelta(seconds=seconds))
        except dist.DistStoreError:
            return None
        try:
            return msgspec.msgpack.decode(self.store.get(key), type=tuple[str, Any])
        except msgspec.MsgspecError as error:
            return f"{key} in the store of the job is no value of a rank ({_one_line(error)})", None

    def _timed_out(self, ranks: Sequence[int]) -> str:
        names = ", ".join(map(str, ranks))
        return f"rank {names} did not answer within {self.timeout_seconds:g} s (checkpoint.timeout_seconds)"

    def _delete_keys(self, old_round: int) -> None:
        for name in (*range(self.size), "decided"):
            self.store.delete_key(f"{old_round}/{name}")

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


def _attempt(rank: int, function: Callable[[], A]) -> tuple[str, A | None]:
    """Call a function; return the error, empty for none, and the result."""
    try:
        return "", function()
    except Mismatch as error:
        return str(error), None
    except Exception as error:
        return f"rank {rank}: {_reason(error)}", None


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
