"""Select the ranks, step records and plans that a snapshot request asks for.

A request for the history of all steps takes as long as a hundred others. It is answered in parts, one rank at a time,
so that scans and other requests go between.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.plans import TrainerPlan, plans_version
from zmon.agent.sources.rank_box import RankBox
from zmon.errors import BoxError
from zmon.schema.api import SnapshotRequest
from zmon.schema.api.agent import AgentReport, UnreadRank
from zmon.schema.api.packed import pack, with_columns
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState
from zmon.schema.shard import parse
from zmon.schema.step import StepRecord
from zmon.web.refusal import Refusal

_Records: TypeAlias = "tuple[StepRecord, ...] | None"
_MAX_ABOUT = 64  # the hub asks for 8; so many are read in less than a millisecond
_SETTLED_NS = 50_000_000  # records of steps that ended longer ago are complete: they are written within microseconds


class NodeRanks(NamedTuple):
    """The ranks of this node as of the last scan."""

    cursor: int  # the records end here, on the host's monotonic clock (ns)
    ranks: tuple[tuple[RankState, int], ...] = ()  # each with its pid in this PID namespace
    records: Mapping[str, dict[str, tuple[StepRecord, ...]]] = MappingProxyType({})
    plans: Mapping[str, Plan] = MappingProxyType({})  # by run uid; empty if the client has this version already
    plans_version: str = ""
    unread: tuple[UnreadRank, ...] = ()  # the first ranks that live and cannot be read


def check(request: SnapshotRequest) -> None:
    """Raise Refusal if the request names a shard that cannot be."""
    try:
        if request.shard:
            parse(request.shard)
    except ValueError as error:
        raise Refusal(400, str(error)) from error


def packed(request: SnapshotRequest, report: AgentReport) -> bytes:
    """Return the packed form of a report, for a hub that may have its resting rows already."""
    return pack(with_columns(report, "f"), request.known)


def is_history(request: SnapshotRequest) -> bool:
    """Return True if the request asks for all steps since some time, not for the few that a pass of the hub needs."""
    return request.since >= 0 and not 0 < request.about <= _MAX_ABOUT


def node_ranks(boxes: Boxes, request: SnapshotRequest, max_records: int) -> NodeRanks:
    """Return what the request selects, but of a history no records, which `with_history` adds.

    Only for the thread that scans the boxes.
    """
    cursor = time.monotonic_ns() - _SETTLED_NS
    ranks: list[tuple[RankState, int]] = []
    records: defaultdict[str, dict[str, tuple[StepRecord, ...]]] = defaultdict(dict)
    plans: list[TrainerPlan] = []
    shard = parse(request.shard) if request.shard else None
    for box, state in boxes.ranks():
        if request.job_id not in (None, state.job_id):
            continue
        if shard is not None and not shard.has(state.wanted_job_id or state.job_id):
            continue
        ranks.append((state, box.pid))
        if (plan := boxes.plan(box)) is not None:
            plans.append(plan._replace(run_uid=box.run_uid))
        if request.since >= 0 and not is_history(request):
            read = _records(box, request, cursor, max_records)
            if read is not None:
                records[state.job_id][state.run_uid] = read
    version = plans_version(plans)
    changed = {plan.run_uid: plan.plan for plan in plans} if version != request.plans else {}
    return NodeRanks(cursor, tuple(ranks), records, changed, version, boxes.unread_ranks())


async def with_history(
    ask: Callable[[Callable[[], _Records]], Awaitable[_Records]],
    boxes: Boxes,
    request: SnapshotRequest,
    node: NodeRanks,
    max_records: int,
) -> NodeRanks:
    """Return the answer with the records of all steps, if the request asks for a history.

    `ask` calls a function in the thread that scans the boxes.
    """

    def read(run_uid: str) -> _Records:
        box = boxes.box(run_uid)
        return None if box is None else _records(box, request, node.cursor, max_records)

    if not is_history(request):
        return node
    records: defaultdict[str, dict[str, tuple[StepRecord, ...]]] = defaultdict(dict)
    for state, _ in node.ranks:
        if (of_rank := await ask(partial(read, state.run_uid))) is not None:
            records[state.job_id][state.run_uid] = of_rank
    return node._replace(records=records)


def _records(box: RankBox, request: SnapshotRequest, cursor: int, max_records: int) -> _Records:
    """Return the records of one rank that ended before the cursor, at most `max_records`; None if it cannot be read."""
    with contextlib.suppress(BoxError, OSError):  # damaged since the last scan: the next one reports it
        if request.about > 0:
            return box.records_spread(request.since, cursor, min(request.about, max_records))
        last = min(request.last, max_records) if request.last > 0 else max_records
        return box.records_ended(request.since, cursor, last)
    return None
