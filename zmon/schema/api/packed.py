"""The packed form of an agent's report, which a hub asks for in each of its passes: few bytes, and quick to decode.

It has the content of `AgentReport` without the totals of each rank, which only pages of metrics show. Two things make
it small. Values are rows without names. What seldom changes about a rank (job, host, labels, end) is sent once and
after each change. The envelope is msgpack, in which steps are bytes. The rest is JSON, so that its text is checked like
that of any other answer.

Only daemons with the same `CONTENT_TYPE` understand each other. Otherwise, or if a part cannot be decoded, the hub asks
for JSON, which is decoded piece by piece. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from zmon.format import plain, plain_json
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.received import LeftOut, Undecodable, decode, with_possible_ranks
from zmon.schema.limits import Version
from zmon.schema.rank import RankState
from zmon.schema.steps import Steps

T = TypeVar("T")


class Rows(Generic[T]):
    """Some fields of a dataclass as the columns of a row."""

    def __init__(self, cls: type[T], fields: Sequence[str]) -> None:
        hints = get_type_hints(cls, include_extras=True)
        row: Any = tuple[tuple(hints[name] for name in fields)]  # type: ignore[misc]
        self.decode: Callable[[bytes], tuple[Sequence[Any], ...]] = msgspec.json.Decoder(tuple[row, ...]).decode
        self._values = attrgetter(*fields)

    def of(self, items: Iterable[T]) -> list[Any]:
        """Return a row for each item."""
        return [self._values(item) for item in items]


class Halves(Generic[T]):
    """A dataclass in two rows, which are sent apart: fields that seldom change (resting), and the others (moving).

    Fields that are `left_out` are in neither row.
    """

    def __init__(self, cls: type[T], moving: Sequence[str], left_out: Sequence[str] = ()) -> None:
        names = [*get_type_hints(cls)]
        resting = [name for name in names if name not in moving and name not in left_out]
        self.resting = Rows(cls, resting)
        self.moving = Rows(cls, moving)
        self._class = cls
        self._in_order = itemgetter(*([*resting, *moving, *left_out].index(name) for name in names))
        self._nothing = (None,) * len(left_out)

    def join(self, resting: Sequence[Any], moving: Sequence[Any]) -> T:
        """Return the item of two rows; fields that are left out are None."""
        return self._class(*self._in_order((*resting, *moving, *self._nothing)))


_MOVING = (
    "process_state", "gone_seconds", "stopped_seconds", "activity", "activity_seconds", "phase", "step", "step_seconds",
    "state_seconds", "in_flight", "sequences", "lease_seconds", "overdue_seconds", "steps", "step_seconds_total",
    "report", "last_step_time", "last_checkpoint_time", "overhead_seconds", "dropped_records", "resident_bytes",
    "device_memory_peak_bytes", "entered", "blocked_seconds", "between_seconds", "open_seconds", "leaving_seconds",
    "last_words_seconds", "launcher_gone_seconds", "relaunched_seconds", "unobserved_seconds",
)  # fmt: skip
_RANKS = Halves(RankState, _MOVING, left_out=("totals",))
_LAYOUT = hashlib.sha256(repr(([field.name for field in fields(RankState)], _MOVING)).encode()).hexdigest()[:12]
CONTENT_TYPE = f"application/vnd.zmon.report-{_LAYOUT}+msgpack"
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


@dataclass(frozen=True, slots=True)
class Resting:
    """The rows of the ranks of an agent that seldom change, with the version that the agent has given them."""

    version: str = ""
    rows: Sequence[Sequence[Any]] = ()


class _Envelope(msgspec.Struct, array_like=True):
    """A packed report."""

    head: bytes  # JSON of the report without ranks and steps
    version: Version  # version of the resting rows
    resting: bytes  # JSON of rows; empty if the client has this version
    moving: bytes  # JSON of rows
    steps: dict[str, tuple[Steps, ...]]  # by job id


_ENVELOPE = msgspec.msgpack.Decoder(_Envelope)


def pack(report: AgentReport, known: str) -> bytes:
    """Return a packed report. `known` is the version of resting rows that the client has."""
    resting = msgspec.json.encode(_RANKS.resting.of(report.ranks))
    version = hashlib.sha256(resting).hexdigest()[:16]
    envelope = _Envelope(
        head=msgspec.json.encode(replace(report, ranks=(), steps={})),
        version=version,
        resting=b"" if version == known else resting,
        moving=msgspec.json.encode(_RANKS.moving.of(report.ranks)),
        steps=report.steps,
    )
    return msgspec.msgpack.encode(envelope)


def unpack(body: bytes, known: Resting) -> tuple[AgentReport, Resting]:
    """Return the report in a packed answer, and the resting rows to unpack the next one with. Raises Undecodable."""
    try:
        envelope = _ENVELOPE.decode(body)
        if envelope.resting:
            known = Resting(envelope.version, _RANKS.resting.decode(plain_json(envelope.resting)))
        elif envelope.version != known.version:
            raise Undecodable("it leaves out what was never sent")
        moving = _RANKS.moving.decode(plain_json(envelope.moving))
        ranks = tuple(_RANKS.join(*halves) for halves in zip(known.rows, moving, strict=True))
    except _DECODE_ERRORS as error:
        raise Undecodable(plain(str(error))) from error
    head = decode(envelope.head, AgentReport)
    report = replace(head, ranks=ranks, steps=envelope.steps)
    return with_possible_ranks(report, LeftOut(head.num_left_out, head.left_out)), known
