"""How fast jobs of a name are at each size: learned from those that run, and what each reaches of it.

Recorded is what a job was like while it was well (zmon/job/baseline.py), so a slow start of a job is judged against how
its earlier starts, or other jobs of its name, were. What `zmon scaling` measured on purpose is never written over.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence

from zmon.errors import ZmonError
from zmon.hub.baseline_store import BaselineStore
from zmon.job.efficiency import step_causes
from zmon.scaling.expected import JobSize, expected
from zmon.scaling.fit import Model, fit
from zmon.schema.aligned_step import AlignedStep, handed_in
from zmon.schema.curve import ON_PURPOSE, Curve, Efficiency, Point, alike
from zmon.schema.expected import Expected
from zmon.schema.names import JOB_ID, OPS
from zmon.schema.snapshot import Snapshot
from zmon.schema.unknown import Unknown

log = logging.getLogger("zmon.hub")

NAME = "name"  # the label by which jobs are of one kind; without it a job is of a kind of its own
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")
_FASTER = 0.01  # than what was recorded: less is not worth a file


class BaselineRecorder:
    """Of this hub's jobs."""

    def __init__(self, baselines: BaselineStore) -> None:
        self._baselines = baselines
        self._failed: dict[str, str] = {}  # by name: what, said once

    def learn(self, snapshot: Snapshot) -> None:
        """Record what this job was like while it was well, where that is news."""
        good = snapshot.baseline
        if good is None or not good.samples:
            return
        name, ranks = name_of(snapshot), snapshot.world_size
        known = self._baselines.curve(name).points_of_size(ranks, good.samples)
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

    def efficiency(self, snapshot: Snapshot, state: str) -> Efficiency | Unknown:
        """What the job reaches now; else why that is unknown."""
        now = now_of(snapshot, state)
        if isinstance(now, Unknown):
            return now
        size, seconds = now
        curve, why = self._read(snapshot)
        if why:
            return Unknown(why)
        try:
            return curve.efficiency(size.ranks, size.samples, size.samples / seconds)
        except ArithmeticError as error:
            return self._useless(curve, error)

    def judge(self, snapshot: Snapshot, state: str) -> tuple[Efficiency | Unknown, Expected | Unknown]:
        """What the job reaches now, and what its steps should take; else why that is unknown."""
        now = now_of(snapshot, state)
        if isinstance(now, Unknown):
            return now, now
        size, seconds = now
        curve, why = self._read(snapshot)
        if why:
            return Unknown(why), Unknown(why)
        causes = _causes(_of(snapshot.steps, size.samples), seconds)
        try:
            efficiency = curve.efficiency(size.ranks, size.samples, size.samples / seconds)
            return efficiency, expected(curve, size, seconds, causes)
        except ArithmeticError as error:
            unknown = self._useless(curve, error)
            return unknown, unknown

    def model(self, snapshot: Snapshot) -> tuple[Curve, Model | Unknown]:
        """What was recorded of jobs of its name, and what that makes of other sizes; else why it makes nothing."""
        curve, why = self._read(snapshot)
        if why or not curve.points:
            return curve, Unknown(why or f"nothing was recorded of {curve.name}")
        try:
            return curve, fit(curve.points, OPS, ranks_per_host=_room(snapshot, curve))
        except ArithmeticError as error:
            return curve, self._useless(curve, error)

    def _read(self, snapshot: Snapshot) -> tuple[Curve, str]:
        """That of its name, and why it cannot be read where it cannot."""
        name = name_of(snapshot)
        curve, unusable = self._baselines.curve(name), self._baselines.unusable(name)
        return curve, f"the baseline of {name} cannot be read: {unusable}" if unusable else ""

    def _useless(self, curve: Curve, error: ArithmeticError) -> Unknown:
        """A person may edit the file, and it has numbers that no job can have."""
        why = f"the baseline of {curve.name} cannot be used: {error}"
        self._say(curve.name, why)
        return Unknown(why)

    def _say(self, name: str, what: str) -> None:
        if self._failed.get(name) != what:
            log.error("%s", what)
        self._failed[name] = what


def now_of(snapshot: Snapshot, state: str) -> tuple[JobSize, float] | Unknown:
    """The job's size and the seconds of its steps now; else why nobody can tell."""
    if state != "train":
        return Unknown("no agent of its ranks answers" if state == "unknown" else f"it does not train now: {state}")
    now = snapshot.stretches[-1] if snapshot.stretches else None
    if now is None or not now.seconds:
        return Unknown("it has not taken steps enough")
    if not now.samples:
        return Unknown("its ranks do not tell their samples")
    return JobSize(snapshot.world_size, now.samples, _per_host(snapshot)), now.seconds


def name_of(snapshot: Snapshot) -> str:
    """Of what kind a job is: files are called so."""
    told = _NO_NAME.sub("_", snapshot.known[0].labels.get(NAME, ""))[:64]
    return told if JOB_ID.fullmatch(told) else snapshot.job_id


def _per_host(snapshot: Snapshot) -> int:
    """Ranks that a host has, at most."""
    return max(Counter(r.host for r in snapshot.known).values())


def _room(snapshot: Snapshot, curve: Curve) -> int:
    """Ranks that a host takes: as many as one has of a job on several; one alone may have room for more."""
    here = _per_host(snapshot)
    if len({r.host for r in snapshot.known}) > 1:
        return here
    return max([here, *(point.ranks_per_host or 1 for point in curve.points)])


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
