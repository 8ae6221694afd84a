"""Decode what another daemon has answered: everything is checked here, and nowhere else.

Text is made plain, numbers are within their limits (`zmon.schema.limits`), and each rank of an agent's report is a
possible one. A report is first decoded as a whole. This fails if the agent has another version, or if one of its ranks
is wrong. Then each rank, source and plan is decoded on its own: what cannot be decoded is left out and counted. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from zmon.format import plain, plain_json
from zmon.schema.api.agent import AgentReport, UnreadRank
from zmon.schema.host import HostSample, SourceStatus
from zmon.schema.limits import MAX_RANKS_OF_AGENT, Seconds, Version, Whole, check_job_id, check_rank, host_name
from zmon.schema.plan import Plan, check_plan
from zmon.schema.rank import RankState
from zmon.schema.row import row_of
from zmon.schema.steps import Steps, check_steps, check_values
from zmon.schema.thresholds import Threshold

T = TypeVar("T")
# Limits of what an agent whose whole report is wrong can make the hub store and show.
_MAX_NAMED = 8  # parts left out, and ranks left out, that have a line; the others are only counted
_MAX_LETTERS = 300
_UNDECODABLE = (msgspec.MsgspecError, RecursionError, ValueError)  # invalid UTF-8 is a ValueError
_SAMPLE_TYPES: Mapping[str, Any] = get_type_hints(HostSample)


class Undecodable(Exception):
    """An answer that cannot be decoded; carries one line with the reason, which never repeats the answer."""


def decode(body: bytes, answer: type[T], lines: bool = False) -> T:
    """Return the answer in the body of a response. Raises Undecodable.

    `lines`: keep the lines of every text, as in the configuration of another program.
    """
    body = plain_json(body, lines)
    try:
        value = msgspec.json.decode(body, type=answer)
        return cast(T, with_possible_ranks(value)) if isinstance(value, AgentReport) else value
    except _UNDECODABLE as error:
        if answer is not AgentReport:
            raise Undecodable(_reason(error)) from error
    return cast(T, _piecewise(body))


class LeftOut:
    """The parts left out of a report: their number, a line for each of the first ones, and the first ranks."""

    def __init__(self, number: int = 0, lines: Sequence[str] = ()) -> None:
        """`number` and `lines`: of the parts that were left out earlier."""
        self.number = number
        self.lines = [*lines]
        self.ranks: list[UnreadRank] = []

    def add(self, what: str, error: Exception | str) -> None:
        """Count a part; name it with the reason if it is among the first ones."""
        self.number += 1
        if len(self.lines) < _MAX_NAMED:
            self.lines.append(f"{what}: {_reason(error)}"[:_MAX_LETTERS])

    def add_rank(self, job_id: str, rank: int | None, error: Exception | str) -> None:
        """Count a rank as a part, and report it as unread if it is among the first ones; None: unknown number."""
        self.add(f"a rank of job {job_id}" if rank is None else f"rank {rank} of job {job_id}", error)
        if len(self.ranks) < _MAX_NAMED:
            self.ranks.append(UnreadRank(job_id, rank, "report", _reason(error), 0.0))

    def add_surplus(self, num_ranks: int) -> None:
        """Add the ranks beyond the number that an agent can have."""
        if num_ranks > MAX_RANKS_OF_AGENT:
            self.add(f"all ranks but {MAX_RANKS_OF_AGENT:,}", "an agent cannot have so many")
            self.number += num_ranks - MAX_RANKS_OF_AGENT - 1

    def decode(self, raw: msgspec.Raw, type_: Any, what: str) -> Any:
        """Return a decoded part of a report; None, and one more part left out, if it cannot be decoded."""
        try:
            return msgspec.json.decode(raw, type=type_)
        except _UNDECODABLE as error:
            self.add(what, error)
            return None

    def decode_each(self, raws: Sequence[msgspec.Raw], type_: Any, what: str) -> tuple[Any, ...]:
        """Return the parts that can be decoded."""
        return tuple(value for raw in raws if (value := self.decode(raw, type_, what)) is not None)

    def complete(self, report: AgentReport) -> AgentReport:
        """Return the report with the parts left out here, in place of those that the agent claims."""
        if (self.number, self.lines) == (report.num_left_out, [*report.left_out]):
            return report
        unread = (*report.unread, *self.ranks)
        return replace(report, unread=unread, num_left_out=self.number, left_out=tuple(self.lines))


class _Pieces(msgspec.Struct):
    """A report whose parts are not decoded yet; only what every version has is required."""

    host: str
    time: Seconds
    version: str
    ranks: list[msgspec.Raw]
    sample: dict[str, msgspec.Raw] = {}
    sources: list[msgspec.Raw] = []
    steps: dict[str, msgspec.Raw] = {}
    cursor: Whole = 0
    monotonic: Seconds | None = None
    box_dir: str = ""
    box_dirs: tuple[str, ...] = ()
    plans: dict[str, msgspec.Raw] = {}
    plans_version: Version = ""
    leases: msgspec.Raw = msgspec.Raw(b"null")  # `Raw | None` would accept null only
    refuses_acts: str | None = None
    unread: list[msgspec.Raw] = []


class _Who(msgspec.Struct):
    """The place of a rank that cannot be decoded."""

    job_id: str = ""
    rank: Whole | None = None


def _piecewise(body: bytes) -> AgentReport:
    """Return a report without the parts that cannot be decoded. Raises Undecodable."""
    try:
        pieces = msgspec.json.decode(body, type=_Pieces)
    except _UNDECODABLE as error:
        raise Undecodable(_reason(error)) from error
    left_out = LeftOut()
    sample = {
        name: left_out.decode(raw, _SAMPLE_TYPES[name], f"source {plain(name)}")
        for name, raw in pieces.sample.items()
        if name in _SAMPLE_TYPES
    }
    steps = {
        job_id: left_out.decode(raw, tuple[Steps, ...], f"steps of job {plain(job_id)}")
        for job_id, raw in pieces.steps.items()
    }
    plans = {uid: left_out.decode(raw, Plan, "a plan") for uid, raw in pieces.plans.items()}
    report = row_of(
        AgentReport,
        pieces,
        ranks=_ranks(pieces.ranks, left_out),
        sample=HostSample(**sample),
        sources=left_out.decode_each(pieces.sources, SourceStatus, "the state of a source"),
        steps={job_id: parts for job_id, parts in steps.items() if parts is not None},
        plans={uid: plan for uid, plan in plans.items() if plan is not None},
        leases=left_out.decode(pieces.leases, tuple[Threshold, ...] | None, "the leases"),
        refuses_acts=pieces.refuses_acts,
        unread=left_out.decode_each(pieces.unread, UnreadRank, "a rank that cannot be read"),
    )
    return with_possible_ranks(report, left_out)


def _ranks(raws: Sequence[msgspec.Raw], left_out: LeftOut) -> tuple[RankState, ...]:
    """Return the ranks that can be decoded. The others are reported as unread, if at least their job can be read."""
    states: list[RankState] = []
    decode_rank: Callable[[msgspec.Raw], RankState] = msgspec.json.Decoder(RankState).decode
    for raw in raws[:MAX_RANKS_OF_AGENT]:
        try:
            states.append(decode_rank(raw))
        except _UNDECODABLE as error:
            try:
                who = msgspec.json.decode(raw, type=_Who)
                check_job_id(who.job_id)
            except _UNDECODABLE:
                left_out.add("a rank", error)
            else:
                left_out.add_rank(who.job_id, who.rank, error)
    left_out.add_surplus(len(raws))
    return tuple(states)


def with_possible_ranks(report: AgentReport, left_out: LeftOut | None = None) -> AgentReport:
    """Return the report with the ranks that can exist, all on the agent's host, and with the plans that fit.

    An agent speaks for its own host only. Its name is text for people and the argument of commands that zmon proposes.
    """
    left_out = left_out or LeftOut()
    host = host_name(report.host)
    ranks = _possible_ranks(report, host, left_out)
    plans = _possible_plans(report, left_out)
    steps = _possible_steps(report, left_out)
    return left_out.complete(replace(report, host=host, ranks=ranks, plans=plans, steps=steps))


def _possible_ranks(report: AgentReport, host: str, left_out: LeftOut) -> tuple[RankState, ...]:
    """Return the ranks of this host that can exist."""
    ranks: list[RankState] = []
    for state in report.ranks[:MAX_RANKS_OF_AGENT]:
        try:
            check_rank(state.rank, state.world_size)
        except ValueError as error:
            left_out.add_rank(state.job_id, state.rank, error)
        else:
            ranks.append(state if state.host == host else replace(state, host=host))
    left_out.add_surplus(len(report.ranks))
    return tuple(ranks)


def _possible_plans(report: AgentReport, left_out: LeftOut) -> dict[str, Plan]:
    """Return the plans that fit, by run uid of the rank that sent them."""
    plans = {}
    for uid, plan in report.plans.items():
        try:
            check_plan(plan)
            plans[uid] = plan
        except ValueError as error:
            left_out.add("a plan", error)
    return plans


def _possible_steps(report: AgentReport, left_out: LeftOut) -> dict[str, tuple[Steps, ...]]:
    """Return the steps that an agent can have, by job; a few bytes can become many values."""
    num_values = 0
    possible = {}
    for job_id, parts in report.steps.items():
        try:
            check_job_id(job_id)
            num_values_with_job = num_values + sum(map(check_steps, parts))
            check_values(num_values_with_job)
        except ValueError as error:
            left_out.add(f"steps of job {plain(job_id)}", error)
        else:
            num_values = num_values_with_job
            possible[job_id] = parts
    return possible


def _reason(error: Exception | str) -> str:
    return plain(str(error))[:_MAX_LETTERS]
