"""Read a dump of torch's flight recorder: the entries of a rank, and the collectives that it has in flight.

This module does no I/O: the agent reads the dumps of live ranks, `zmon analyze` those that a job left on disk.

The recorder also has the collectives that C++ issued and Python does not see: those of DDP's reducer and of compiled
graphs. It is on unless TORCH_FR_BUFFER_SIZE is 0, and holds the last 2,000 operations of every kind except gloo's send
and recv (torch/csrc/distributed/c10d/FlightRecorderDetail.hpp; the dump's version is 2.10). An operation is done if its
state is `completed`, or if it is `retired`, except where a backend also retires what has timed out (`BACKENDS`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from zmon.format import plain, plain_json
from zmon.schema.flight import FlightRecord, PendingCollective
from zmon.schema.names import OPS

MAX_PENDING = 16
MAX_GROUPS = 32
MAX_TENSORS = 8  # tensors of one operation whose sizes are reported
MAX_NAME = 64  # characters
_MAX_BYTES = 2**62
_MAX_AGE_SECONDS = 30 * 86400.0

# c10/core/ScalarType.h
_ITEM_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Short", "UInt16", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "UInt32", "Float", "ComplexHalf", "QInt32"), 4),
    **dict.fromkeys(("Long", "UInt64", "Double", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}


class Backend(NamedTuple):
    """The way in which torch records the operations of a backend."""

    request: str  # the handler of the worker server that has them, with its query
    retires_timeouts: bool = False  # an operation that is retired but not completed has timed out


# gloo and NCCL record by themselves. The operations of nccl2 are recorded by a hook of c10d: in one record for all
# backends in torch 2.14, in one for each from torch 2.15 on, where `nccl` means nccl2 (hooks/FlightRecorderHook.hpp).
# An older torch ignores the query. nccl2 is untested here, because both versions exist for CUDA only.
BACKENDS = {
    "gloo": Backend("fr_trace_json"),
    "nccl": Backend("dump_nccl_trace_json", retires_timeouts=True),
    "nccl2": Backend("fr_trace_json?backend=nccl2"),
    "nccl-lazy": Backend("fr_trace_json?backend=nccl-lazy"),
}
_OTHER_BACKEND = Backend("")  # any other backend counts as one that records as gloo does
_Count = Annotated[int, msgspec.Meta(ge=-1, le=_MAX_BYTES)]
_Shape = Annotated[list[_Count], msgspec.Meta(max_length=64)]  # torch has no tensor of more dimensions


class Entry(msgspec.Struct):
    """One operation of a rank, with the names that torch gives its fields."""

    process_group: list[str]  # name, description
    profiling_name: str
    collective_seq_id: _Count
    state: str
    retired: bool
    time_created_ns: _Count
    p2p_seq_id: _Count = 0
    op_id: _Count = 0
    is_p2p: bool = False
    input_sizes: list[_Shape] = []
    input_dtypes: list[str] = []
    output_sizes: list[_Shape] = []
    output_dtypes: list[str] = []

    def __post_init__(self) -> None:
        """Make the texts plain: a dump is a file or the answer of a rank, as JSON or as a pickle."""
        self.process_group = [plain(name) for name in self.process_group]
        self.profiling_name, self.state = plain(self.profiling_name), plain(self.state)

    @property
    def backend(self) -> str:
        """The backend that ran it, such as `nccl`."""
        return self.profiling_name.partition(":")[0][:MAX_NAME]

    @property
    def group(self) -> str:
        """The backend and name of its process group."""
        name = self.process_group[0] if self.process_group else ""
        return f"{self.backend}:{name[:MAX_NAME]}"

    @property
    def done(self) -> bool:
        """True if the operation has ended without a timeout."""
        return self.state == "completed" or (
            self.retired and not BACKENDS.get(self.backend, _OTHER_BACKEND).retires_timeouts
        )


class FlightDump(msgspec.Struct):
    """The dump of one rank."""

    pg_config: dict[str, Any] = {}
    entries: list[Entry] = []  # torch leaves the key out if there are no entries


def read(dumps: Sequence[bytes], now: float) -> tuple[FlightRecord | None, str | None]:
    """Return what is in flight at unix time `now`, or None and the reason in one line.

    `dumps` are the answers of the worker server to the requests of `BACKENDS`.
    """
    groups: set[str] = set()
    entries: dict[tuple[Any, ...], Entry] = {}  # newer torch has the same entries in several answers
    for dump in dumps:
        try:
            decoded = msgspec.json.decode(plain_json(dump), type=FlightDump)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return None, f"the flight record cannot be understood: {str(error)[:200]}"
        groups.update(decoded.pg_config)
        for e in decoded.entries:
            entries[e.group, e.profiling_name, e.collective_seq_id, e.p2p_seq_id, e.op_id, e.time_created_ns] = e
    if not groups and not entries:
        return None, "the flight record is empty: no process group yet, or TORCH_FR_BUFFER_SIZE=0"
    return flight_record(sorted(entries.values(), key=lambda e: e.time_created_ns), now), None


def flight_record(entries: Sequence[Entry], now: float | None) -> FlightRecord:
    """Return the record of entries that are in order of time. Ages are unknown if `now` is None."""
    last_done: dict[str, int] = {}
    for e in reversed(entries):  # the newest first: the groups that were used last are kept
        if e.done and not e.is_p2p and (e.group in last_done or len(last_done) < MAX_GROUPS):
            last_done[e.group] = max(last_done.get(e.group, 0), e.collective_seq_id)
    unfinished = [e for e in entries if not e.done]
    shown = unfinished
    if len(unfinished) > MAX_PENDING:  # the oldest entries show where the rank hangs, the newest how far it has come
        half = MAX_PENDING // 2
        shown = unfinished[:half] + unfinished[-half:]
    return FlightRecord(tuple(pending_collective(e, now) for e in shown), len(unfinished), last_done)


def pending_collective(e: Entry, now: float | None) -> PendingCollective:
    """Return one entry that is not done, in the shape of zmon's API."""
    sizes, dtypes = (e.input_sizes, e.input_dtypes) if e.input_sizes else (e.output_sizes, e.output_dtypes)
    age = None if now is None else now - e.time_created_ns / 1e9
    return PendingCollective(
        group=e.group,
        sequence=e.p2p_seq_id if e.is_p2p else e.collective_seq_id,
        op=op_of(e.profiling_name),
        name=e.profiling_name[:MAX_NAME],
        num_bytes=_num_bytes(sizes, dtypes),
        sizes=tuple(map(tuple, sizes[:MAX_TENSORS])),
        dtypes=tuple(dtype[:MAX_NAME] for dtype in dtypes[:MAX_TENSORS]),
        age_seconds=round(age, 3) if age is not None and 0 <= age < _MAX_AGE_SECONDS else None,
        state="timed_out" if e.retired else e.state[:MAX_NAME],  # only a backend that retires timeouts has both
    )


def _num_bytes(sizes: list[_Shape], dtypes: list[str]) -> int | None:
    """Return the bytes of all tensors; None if a dtype is unknown or no tensor can be that large."""
    if len(sizes) != len(dtypes) or any(dtype not in _ITEM_BYTES for dtype in dtypes):
        return None
    total = sum(math.prod(size) * _ITEM_BYTES[dtype] for size, dtype in zip(sizes, dtypes, strict=True))
    return total if 0 <= total <= _MAX_BYTES else None


def op_of(name: str) -> str:
    """Return the op of a profiling name: `nccl:_reduce_scatter_base` is reduce_scatter. An unknown op stays."""
    word = name.rpartition(":")[2].removeprefix("sparse_").lstrip("_")
    return next((op for op in OPS if word.startswith(op)), word[:MAX_NAME])
