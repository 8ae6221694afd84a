"""Select the ranks, step records and plans that a snapshot request asks for."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.plans import TrainerPlan, plans_version
from zmon.errors import BoxError
from zmon.schema.api import SnapshotRequest
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState
from zmon.schema.step import StepRecord

_SETTLED_NS = 50_000_000  # records of steps that ended longer ago are complete: they are written within microseconds


class NodeRanks(NamedTuple):
    """The ranks of this node as of the last scan."""

    cursor: int  # the records end here, on the host's monotonic clock (ns)
    ranks: tuple[tuple[RankState, int], ...] = ()  # each with its pid in this PID namespace
    records: Mapping[str, dict[str, tuple[StepRecord, ...]]] = MappingProxyType({})
    plans: Mapping[str, Plan] = MappingProxyType({})  # by run uid; empty if the client has this version already
    plans_version: str = ""


def node_ranks(boxes: Boxes, request: SnapshotRequest, max_records: int) -> NodeRanks:
    """Return what the request selects, with at most `max_records` records per rank unless it sets `about`.

    Only for the thread that scans the boxes.
    """
    cursor = time.monotonic_ns() - _SETTLED_NS
    spread = request.about > 0
    last = min(request.last, max_records) if request.last > 0 else max_records
    num_records = request.about if spread else last
    ranks: list[tuple[RankState, int]] = []
    records: defaultdict[str, dict[str, tuple[StepRecord, ...]]] = defaultdict(dict)
    plans: list[TrainerPlan] = []
    for box, state in boxes.ranks():
        if request.job_id not in (None, state.job_id):
            continue
        ranks.append((state, box.pid))
        if (plan := boxes.plan(box)) is not None:
            plans.append(plan._replace(run_uid=box.run_uid))
        if request.since >= 0:
            with contextlib.suppress(BoxError, OSError):  # damaged since the last scan: the next one reports it
                read = box.records_spread if spread else box.records_ended
                records[state.job_id][state.run_uid] = read(request.since, cursor, num_records)
    version = plans_version(plans)
    changed = {plan.run_uid: plan.plan for plan in plans} if version != request.plans else {}
    return NodeRanks(cursor, tuple(ranks), records, changed, version)
