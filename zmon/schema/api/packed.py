"""The packed form of an agent's report, which a hub asks for in each of its passes: few bytes, and quick to decode.

It says what the JSON of `AgentReport` says, except the totals of each rank, which only pages of metrics show. Three
things make it small: steps are columns (`zmon.schema.step_columns`); values are rows without names; and what seldom
changes about a rank, such as its job, host, labels and end, is sent once and after each change. The envelope is
msgpack, in which the columns are bytes; the rest is JSON, so that its text is checked like that of any other answer.

Only daemons whose `LAYOUT` is the same understand each other. Otherwise, or if a part cannot be decoded, the hub asks
for JSON, which is decoded piece by piece. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Literal

import msgspec

from zmon.format import plain, plain_json
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.received import LeftOut, Undecodable, decode, with_possible_ranks
from zmon.schema.api.rows import Halves
from zmon.schema.limits import Version, check_job_id
from zmon.schema.quick_dataclass import quick_dataclass
from zmon.schema.rank import RankState
from zmon.schema.step_columns import StepColumns, check_columns, check_values, step_columns

_MOVING = (
    "process_state", "gone_seconds", "stopped_seconds", "activity", "activity_seconds", "phase", "step", "step_seconds",
    "state_seconds", "in_flight", "sequences", "lease_seconds", "overdue_seconds", "steps", "step_seconds_total",
    "memory", "report", "last_step_time", "last_checkpoint_time", "overhead_seconds", "dropped_records",
    "resident_bytes", "entered", "blocked_seconds", "between_seconds", "open_seconds", "leaving_seconds",
    "last_words_seconds", "launcher_gone_seconds", "relaunched_seconds", "unobserved_seconds",
)  # fmt: skip
_RANKS = Halves(RankState, _MOVING, left_out=("measures",))
_LAYOUT = hashlib.sha256(repr(([each.name for each in fields(RankState)], _MOVING)).encode()).hexdigest()[:12]
CONTENT_TYPE = f"application/vnd.zmon.report-{_LAYOUT}+msgpack"
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


@quick_dataclass
class ColumnReport(AgentReport):
    """A report whose records of steps are columns, as the hub uses it: `records` is empty."""

    columns: dict[str, StepColumns] = field(default_factory=dict)  # by job id


_NAMES = [each.name for each in fields(AgentReport)]
_VALUES = attrgetter(*_NAMES)


def with_columns(report: AgentReport, code: Literal["f", "d"] = "d") -> ColumnReport:
    """Return the report with its records as columns. `code` is the type of seconds: `f` has 32 bits, `d` 64."""
    columns = {job_id: step_columns(records, code) for job_id, records in report.records.items()}
    return replace(ColumnReport(*_VALUES(report)), records={}, columns=columns)


@dataclass(frozen=True, slots=True)
class Resting:
    """The rows of the ranks of an agent that seldom change, with the version that the agent has given them."""

    version: str = ""
    rows: Sequence[Sequence[Any]] = ()


class _Envelope(msgspec.Struct, array_like=True):
    """A packed report."""

    head: bytes  # JSON of the report without ranks and records
    version: Version  # version of the resting rows
    resting: bytes  # JSON of rows; empty if the client has this version
    moving: bytes  # JSON of rows
    columns: dict[str, StepColumns]  # by job id


_ENVELOPE = msgspec.msgpack.Decoder(_Envelope)


def pack(report: ColumnReport, known: str) -> bytes:
    """Return a packed report. `known` is the version of resting rows that the client has."""
    resting = msgspec.json.encode(_RANKS.resting.of(report.ranks))
    version = hashlib.sha256(resting).hexdigest()[:16]
    envelope = _Envelope(
        head=msgspec.json.encode(replace(report, ranks=(), columns={})),
        version=version,
        resting=b"" if version == known else resting,
        moving=msgspec.json.encode(_RANKS.moving.of(report.ranks)),
        columns=report.columns,
    )
    return msgspec.msgpack.encode(envelope)


def unpack(body: bytes, known: Resting) -> tuple[ColumnReport, Resting]:
    """Return the report in a packed answer, and the resting rows to unpack the next one with. Raises Undecodable."""
    try:
        envelope = _ENVELOPE.decode(body)
        if envelope.resting:
            known = Resting(envelope.version, _RANKS.resting.decode(plain_json(envelope.resting)))
        elif envelope.version != known.version:
            raise Undecodable("it leaves out what was never sent")
        moving = _RANKS.moving.decode(plain_json(envelope.moving))
        ranks = tuple(_RANKS.joined(*halves) for halves in zip(known.rows, moving, strict=True))
        check_values(sum(_num_values(job_id, each) for job_id, each in envelope.columns.items()))
    except _DECODE_ERRORS as error:
        raise Undecodable(plain(str(error))) from error
    head = decode(envelope.head, AgentReport)
    values = dict(zip(_NAMES, _VALUES(head), strict=True))
    report = ColumnReport(**{**values, "ranks": ranks, "columns": envelope.columns})
    return with_possible_ranks(report, LeftOut(head.num_left_out, head.left_out)), known


def _num_values(job_id: str, columns: StepColumns) -> int:
    """Return the number of values in the columns of a job. Raises ValueError if they are wrong."""
    check_job_id(job_id)
    return check_columns(columns)
