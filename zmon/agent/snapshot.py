"""Select the ranks, steps and plans that a snapshot request asks for.

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
from typing import NamedTuple

from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.plans import TrainerPlan, plans_version
from zmon.box.steps import StepEnds, aligned_steps, whole_steps
from zmon.errors import BoxError
from zmon.schema.api import SnapshotRequest
from zmon.schema.api.agent import UnreadRank
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState
from zmon.schema.shard import parse
from zmon.schema.steps import Steps
from zmon.web.responses import Refusal

_MAX_ABOUT = 64  # records per rank; the hub requests 8, and 64 are read in less than a millisecond
_SETTLED_NS = 50_000_000  # boundaries of steps that ended longer ago are complete: they are written within microseconds


class NodeRanks(NamedTuple):
    """The ranks of this node as of the last scan."""

    cursor: int  # the steps end here, on the host's monotonic clock (ns)
    ranks: tuple[tuple[RankState, int], ...] = ()  # each with its pid in this PID namespace
    steps: Mapping[str, tuple[Steps, ...]] = MappingProxyType({})  # by job id
    plans: Mapping[str, Plan] = MappingProxyType({})  # by run uid; empty if the client has this version already
    plans_version: str = ""
    unread: tuple[UnreadRank, ...] = ()  # the first ranks that live and cannot be read


def is_history(request: SnapshotRequest) -> bool:
    """Return True if the request asks for all steps since some time, not for the few that a pass of the hub needs."""
    wants_few_steps = 0 < request.about <= _MAX_ABOUT
    return request.since >= 0 and not wants_few_steps


def node_ranks(boxes: Boxes, request: SnapshotRequest) -> NodeRanks:
    """Return what the request selects, without the steps of a history. Only for the thread that scans the boxes.

    Raises Refusal if the request names an impossible shard.
    """
    cursor = time.monotonic_ns() - _SETTLED_NS
    ranks: list[tuple[RankState, int]] = []
    ends: defaultdict[str, dict[str, list[StepEnds]]] = defaultdict(dict)
    plans: list[TrainerPlan] = []
    try:
        shard = parse(request.shard) if request.shard else None
    except ValueError as error:
        raise Refusal(400, str(error)) from error
    for box, state in boxes.ranks():
        if request.job_id not in (None, state.job_id):
            continue
        if shard is not None and not shard.has(state.wanted_job_id or state.job_id):
            continue
        ranks.append((state, box.pid))
        if (plan := boxes.plan(box)) is not None:
            plans.append(plan._replace(run_uid=box.run_uid))
        if request.since >= 0 and not is_history(request):
            with contextlib.suppress(BoxError, OSError):  # damaged since the last scan: the next one reports it
                ends[state.job_id][state.run_uid] = box.steps_spread(request.since, cursor, request.about)
    steps = {job_id: (aligned_steps(ends_by_rank),) for job_id, ends_by_rank in ends.items()}
    version = plans_version(plans)
    changed = {plan.run_uid: plan.plan for plan in plans} if version != request.plans else {}
    return NodeRanks(cursor, tuple(ranks), steps, changed, version, boxes.unread_ranks())


async def with_history(
    ask: Callable[[Callable[[Boxes], Steps]], Awaitable[Steps]],
    request: SnapshotRequest,
    node: NodeRanks,
    max_steps: int,
) -> NodeRanks:
    """Return the answer with all steps, if the request asks for a history, at most `max_steps` of each rank.

    `ask` calls a function in the thread that scans the boxes.
    """
    if not is_history(request):
        return node
    last = min(request.last, max_steps) if request.last > 0 else max_steps

    def read(boxes: Boxes, run_uid: str) -> Steps:
        if (box := boxes.box(run_uid)) is None:
            return Steps()
        try:
            if request.about > 0:
                about = min(request.about, max_steps)
                return aligned_steps({run_uid: box.steps_spread(request.since, node.cursor, about)})
            return whole_steps({run_uid: box.steps_ended(request.since, node.cursor, last)})
        except (BoxError, OSError):
            return Steps()

    parts: defaultdict[str, list[Steps]] = defaultdict(list)
    for state, _ in node.ranks:
        parts[state.job_id].append(await ask(partial(read, run_uid=state.run_uid)))
    return node._replace(steps={job_id: tuple(job_parts) for job_id, job_parts in parts.items()})
