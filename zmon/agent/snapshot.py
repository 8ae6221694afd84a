"""What did the ranks of this node do, as of the last look? For the thread that looks."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.plans import TrainerPlan, version
from zmon.errors import BoxError
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState
from zmon.schema.step import StepRecord

_SETTLED_NS = 50_000_000  # a record is written microseconds after its step's end: what is older is all there


@dataclass(frozen=True, slots=True)
class Selection:
    """Which ranks, and which of their steps: those that ended after `since` on the host's monotonic clock (ns)."""

    since: int | None = None  # None: no steps
    job_id: str | None = None  # None: of every job
    about: int | None = None  # so many steps of each rank, the same on all of them
    last: int | None = None  # or so many, the last ones
    plans: str = ""  # the version of the plans that the asker has; empty: none


class RanksAtLook(NamedTuple):
    """The ranks as of the last look."""

    cursor: int
    ranks: tuple[tuple[RankState, int], ...] = ()  # with its pid as seen from here
    records: Mapping[str, dict[str, tuple[StepRecord, ...]]] = MappingProxyType({})
    plans: Mapping[str, Plan] = MappingProxyType({})  # by run uid; none where the asker has them
    plans_version: str = ""


def ranks_at_look(boxes: Boxes, asked: Selection, most: int) -> RanksAtLook:
    """No more than `most` steps of a rank, unless it is asked for about so many."""
    cursor = time.monotonic_ns() - _SETTLED_NS
    ranks: list[tuple[RankState, int]] = []
    records: defaultdict[str, dict[str, tuple[StepRecord, ...]]] = defaultdict(dict)
    plans: list[TrainerPlan] = []
    for box, state in boxes.ranks():
        if asked.job_id not in (None, state.job_id):
            continue
        ranks.append((state, box.pid))
        if (told := boxes.plan(box)) is not None:
            plans.append(told)
        if asked.since is not None:
            with contextlib.suppress(BoxError, OSError):  # damaged since it was looked at: the next look says so
                read = box.records_ended if asked.about is None else box.records_spread
                number = asked.about or min(asked.last or most, most)
                records[state.job_id][state.run_uid] = read(asked.since, cursor, number)
    now = version(plans)
    news = {told.run_uid: told.plan for told in plans} if now != asked.plans else {}
    return RanksAtLook(cursor, tuple(ranks), records, news, now)
