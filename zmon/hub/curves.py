"""How fast jobs of a name are at each size: learned from those that run, and what each reaches of it.

Recorded is what a job was like while it was well (zmon/baseline.py), so a slow start of a job is judged against how its
earlier starts, or other jobs of its name, were. What `zmon scaling` measured on purpose is never written over.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence

from zmon.aligned import AlignedStep, handed_in
from zmon.baselines import Baselines
from zmon.box.reader import JOB_ID
from zmon.curve import ON_PURPOSE, Efficiency, Point, alike
from zmon.efficiency import step_causes
from zmon.errors import ZmonError
from zmon.expected import Expected, Size, expected
from zmon.records import Snapshot

log = logging.getLogger("zmon.hub")

NAME = "name"  # the label by which jobs are of one kind; without it a job is of a kind of its own
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")
_FASTER = 0.01  # than what was recorded: less is not worth a file


class Curves:
    """Of this hub's jobs."""

    def __init__(self, baselines: Baselines) -> None:
        self._baselines = baselines
        self._failed: dict[str, str] = {}  # by name: what, said once

    def learn(self, snapshot: Snapshot) -> None:
        """Record what this job was like while it was well, where that is news."""
        good = snapshot.baseline
        if good is None or not good.samples:
            return
        name, ranks = name_of(snapshot), snapshot.world_size
        known = self._baselines.curve(name).alike(ranks, good.samples)
        rate = good.samples / ranks / good.seconds
        if any(p.by == ON_PURPOSE or rate < (1 + _FASTER) * p.rate for p in known):
            return
        steps = _of(snapshot.steps, good.samples)
        point = Point(
            ranks=ranks,
            samples=good.samples,
            seconds=good.seconds,
            by=snapshot.job_id,
            recorded=snapshot.time,
            causes=_causes(steps, good.seconds),
            sent_bytes=handed_in(steps),
            ranks_per_host=_per_host(snapshot),
        )
        try:
            self._baselines.record(name, point)
            self._failed.pop(name, None)
        except ZmonError as error:
            self._say(name, f"{error}; jobs are judged against what was recorded before")

    def judge(self, snapshot: Snapshot, state: str) -> tuple[Efficiency | str, Expected | str]:
        """What the job reaches now, and what its steps should take; else why that is unknown."""
        now = snapshot.stretches[-1] if snapshot.stretches else None
        if state != "train":
            why = "no agent of its ranks answers" if state == "unknown" else f"it does not train now: {state}"
            return why, why
        if now is None or not now.samples:
            why = "its ranks do not tell their samples" if now else "it has not taken steps enough"
            return why, why
        name = name_of(snapshot)
        curve = self._baselines.curve(name)
        if unusable := self._baselines.unusable(name):
            why = f"the baseline of {name} cannot be read: {unusable}"
            return why, why
        causes = _causes(_of(snapshot.steps, now.samples), now.seconds)
        try:
            efficiency = curve.efficiency(snapshot.world_size, now.samples, now.samples / now.seconds)
            size = Size(snapshot.world_size, now.samples, _per_host(snapshot))
            return efficiency, expected(curve, size, now.seconds, causes)
        except ArithmeticError as error:  # numbers that no job can have, in a file that a person may edit
            why = f"the baseline of {name} cannot be used: {error}"
            self._say(name, why)
            return why, why

    def _say(self, name: str, what: str) -> None:
        if self._failed.get(name) != what:
            log.error("%s", what)
        self._failed[name] = what


def name_of(snapshot: Snapshot) -> str:
    """Of what kind a job is: files are called so."""
    told = _NO_NAME.sub("_", snapshot.known[0].labels.get(NAME, ""))[:64]
    return told if JOB_ID.fullmatch(told) else snapshot.job_id


def _per_host(snapshot: Snapshot) -> int:
    """Ranks that a host has, at most."""
    return max(Counter(r.host for r in snapshot.known).values())


def _of(steps: Sequence[AlignedStep], samples: int) -> list[AlignedStep]:
    """Those with about so many samples: the job may have had another batch a moment ago."""
    told = [(step, [n for n in step.samples if n is not None]) for step in steps]
    return [step for step, each in told if len(each) == len(step.samples) and alike(sum(each), samples)]


def _causes(steps: Sequence[AlignedStep], seconds: float) -> dict[str, float]:
    """So many seconds, shared out as in these steps; none where there are none."""
    totals: Counter[str] = Counter()
    for step in steps:
        totals.update(step_causes(step))
    whole = sum(totals.values())
    return {cause: seconds * spent / whole for cause, spent in totals.items() if spent}
