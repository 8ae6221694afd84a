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
    num_agents: int | None = None  # that the hub asks; None: an older hub
    num_agents_answering: int | None = None
    schema: int = SCHEMA


class RanksRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/jobs/{job_id}/ranks`."""

    job_id: str


class RankRow(RankStatus, frozen=True):
    """One rank of a job as the hub last saw it. The times of its last complete step are None if none is known."""

    watched: bool = True  # its agent answers
    in_flight_seconds: float | None = None
    self_seconds: float | None = None
    exposed_seconds: float | None = None


class RankList(msgspec.Struct, frozen=True):
    """Every rank of one job."""

    job_id: str
    ranks: Sequence[RankRow]
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
