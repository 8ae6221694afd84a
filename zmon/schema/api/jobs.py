"""The hub's answers about jobs, their ranks and their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from zmon.schema.job import JobView
from zmon.schema.names import SCHEMA
from zmon.schema.rank import RankStatus


class JobsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/jobs`."""


class JobList(msgspec.Struct, frozen=True):
    """Every job that an agent reports."""

    jobs: Sequence[JobView]
    blind: bool  # True: no agent answers, and the jobs are in their last known state
    as_of: float | None = None  # unix seconds of the hub's last pass: while it is blind, all figures are of that time
    num_agents: int = 0  # that the hub asks
    num_agents_answering: int = 0
    schema: int = SCHEMA


class RanksRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/jobs/{job_id}/ranks`. Without `limit`, the answer has all ranks."""

    job_id: str
    limit: int = -1  # rows in the answer; negative: all
    offset: int = 0  # rows before them
    # `urgency`: culprits of findings, then dead, overdue and unwatched ranks. Else a column: rank, step, self_seconds,
    # exposed_seconds, in_flight_seconds, state_seconds or overdue_seconds. With `-` before it, the largest is first.
    order: str = "rank"
    standing_out: bool = False  # True: only the ranks that `urgency` names
    host: str | None = None  # only the ranks of this host


class RankRow(RankStatus, frozen=True):
    """One rank of a job as the hub last saw it. The times of its last complete step are None if none is known."""

    watched: bool = True  # its agent answers
    in_flight_seconds: float | None = None
    self_seconds: float | None = None
    exposed_seconds: float | None = None
    step_seconds: float | None = None  # since its last step ended; None: no step has


class RankSummary(msgspec.Struct, frozen=True):
    """The numbers of ranks of a job in each state, whichever rows were requested."""

    num_ranks: int  # that an agent has reported
    num_standing_out: int  # of them: culprits, dead, overdue or unwatched ranks
    num_missing: int  # ranks that no agent has reported, by the size of the job
    missing: Sequence[int]  # the first of them
    by_state: Mapping[str, int]  # by activity, or dead, unwatched, overdue, or waiting for a second or longer


class RankList(msgspec.Struct, frozen=True):
    """Ranks of one job: all, or those that were requested."""

    job_id: str
    ranks: Sequence[RankRow]
    num_rows: int  # of all pages
    summary: RankSummary
    schema: int = SCHEMA


class PlanRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/jobs/{job_id}/plan`."""

    job_id: str


class Amounts(msgspec.Struct, frozen=True):
    """A step of one rank, as planned or as measured. None: not planned, or not measured yet."""

    lookups: float | None = None
    sent_bytes: float | None = None  # in all-to-alls
    received_bytes: float | None = None
    seconds: float | None = None  # self time
    memory_bytes: float | None = None


class PlanRow(msgspec.Struct, frozen=True):
    """Plan and measurement of one rank."""

    rank: int
    host: str
    tables: Sequence[str]  # the names of the first ones
    num_tables: int | None
    planned: Amounts | None
    measured: Amounts


class PlanTable(msgspec.Struct, frozen=True):
    """Plan and measurement of every rank of one job."""

    job_id: str
    ranks: Sequence[PlanRow]
    totals: Mapping[str, float] | None  # None: the trainer sent no plan
    schema: int = SCHEMA
