"""How fast jobs of a name are at each size: learned from those that run, and what each reaches of it.

Recorded is what a job was like while it was well (zmon/baseline.py), so a slow start of a job is judged against how its
earlier starts, or other jobs of its name, were. What `zmon scaling` measured on purpose is never written over.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from zmon.aligned import AlignedStep
from zmon.baselines import Baselines
from zmon.box.reader import JOB_ID
from zmon.curve import ON_PURPOSE, Efficiency, Point
from zmon.efficiency import step_causes
from zmon.errors import ZmonError
from zmon.expected import Expected, expected
from zmon.records import Snapshot

log = logging.getLogger("zmon.hub")

NAME = "name"  # the label by which jobs are of one kind; without it a job is of a kind of its own
_FASTER = 0.01  # than what was recorded: less is not worth a file


class Curves:
    """Of this hub's jobs."""

    def __init__(self, baselines: Baselines) -> None:
        self._baselines = baselines
        self._error = ""

    def learn(self, snapshot: Snapshot) -> None:
        """Record what this job was like while it was well, where that is news."""
        good = snapshot.baseline
        if good is None or not good.samples:
            return
        name = name_of(snapshot)
        known = self._baselines.curve(name).at(snapshot.world_size, good.samples)
        if known is not None and (known.by == ON_PURPOSE or good.seconds > known.seconds * (1 - _FASTER)):
            return
        per_host = [r.host for r in snapshot.known]
        point = Point(
            ranks=snapshot.world_size,
            samples=good.samples,
            seconds=good.seconds,
            by=snapshot.job_id,
            recorded=snapshot.time,
            causes=_causes(snapshot.steps, good.seconds),
            sent_bytes=_sent(snapshot.steps),
            ranks_per_host=max(map(per_host.count, set(per_host))),
        )
        try:
            self._baselines.record(name, point)
            self._error = ""
        except ZmonError as error:
            if str(error) != self._error:
                log.error("%s; jobs are judged against what was recorded before", error)
            self._error = str(error)

    def efficiency(self, snapshot: Snapshot) -> Efficiency | str:
        """What the job reaches now; else why that is unknown."""
        if not any(r.alive for r in snapshot.ranks):
            return "it does not run"
        if not snapshot.stretches:
            return "it has not taken steps enough"
        now = snapshot.stretches[-1]
        if not now.samples:
            return "its ranks do not tell their samples"
        name = name_of(snapshot)
        curve = self._baselines.curve(name)
        if unusable := self._baselines.unusable(name):
            return f"the baseline of {name} cannot be read: {unusable}"
        return curve.efficiency(snapshot.world_size, now.samples, now.samples / now.seconds)

    def expected(self, snapshot: Snapshot) -> Expected | str:
        """What its steps should take, beside what they take; else why that is unknown."""
        if not snapshot.stretches or not snapshot.steps or not any(r.alive for r in snapshot.ranks):
            return "it takes no steps"
        now = snapshot.stretches[-1]
        if not now.samples:
            return "its ranks do not tell their samples"
        curve = self._baselines.curve(name_of(snapshot))
        causes = _causes(snapshot.steps, now.seconds)
        return expected(curve, snapshot.world_size, now.samples, now.seconds, causes)


def name_of(snapshot: Snapshot) -> str:
    """Of what kind a job is: files are called so."""
    told = snapshot.known[0].labels.get(NAME, "")
    return told if JOB_ID.fullmatch(told) else snapshot.job_id


def _causes(steps: Sequence[AlignedStep], seconds: float) -> dict[str, float]:
    """So many seconds, shared out as in these steps."""
    totals: defaultdict[str, float] = defaultdict(float)
    for step in steps:
        for cause, spent in step_causes(step).items():
            totals[cause] += spent
    whole = sum(totals.values())
    return {cause: seconds * spent / whole for cause, spent in totals.items() if spent}


def _sent(steps: Sequence[AlignedStep]) -> dict[str, float]:
    """Bytes that a rank hands in, by op."""
    ops = sorted({op for step in steps for op in step.sent_bytes})
    return {op: fmean(fmean(step.sent_bytes.get(op, (0,))) for step in steps) for op in ops}
