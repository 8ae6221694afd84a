"""The recorder of baselines: it learns the speed of the jobs of each name, and compares each job with it.

It records the baseline that a job has learned while it was well (zmon/job/baseline.py). A slow launch is then compared
with earlier launches of the job, or with other jobs of its name. What `zmon scaling` has measured is never replaced.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from zmon.errors import ZmonError
from zmon.hub.baseline_store import BaselineStore
from zmon.job.columns import total_samples
from zmon.job.efficiency import step_categories
from zmon.scaling.expected import JobSize, expected_step
from zmon.scaling.fit import Model, fit
from zmon.schema.aligned_step import AlignedStep, sent_bytes_by_op
from zmon.schema.curve import ON_PURPOSE, Efficiency, Point, ScalingCurve, are_similar
from zmon.schema.job import ExpectedStep
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import JOB_ID, NAME, OPS
from zmon.schema.rank import RankState
from zmon.schema.unknown import Unknown

log = logging.getLogger("zmon.hub")

_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9._-]")  # in the name of a curve, which is also the name of its file
_MAX_NAME = 64  # characters
_MIN_GAIN_RATIO = 0.01  # a baseline is replaced only if the rate grows by more; less is not worth a write


class _Speed(NamedTuple):
    """The speed of a job now, and the curve that it is compared with."""

    curve: ScalingCurve
    size: JobSize
    seconds: float  # of a step

    @property
    def samples_per_second(self) -> float:
        return self.size.samples / self.seconds


class BaselineRecorder:
    """The recorder of one hub: reads and records the curves of its jobs."""

    def __init__(self, baselines: BaselineStore) -> None:
        self._baselines = baselines
        self.error: str | None = None  # why the last baseline could not be written
        self._logged_errors: dict[str, str] = {}  # the last error, which is logged once, by name of the curve

    def learn(self, snapshot: Snapshot) -> None:
        """Record the baseline of this job, if it is faster than what is recorded at its size."""
        baseline = snapshot.baseline
        if baseline is None or not baseline.samples:
            return
        name, ranks = curve_name(snapshot), snapshot.world_size
        recorded = self._baselines.curve(name).points_of_size(ranks, baseline.samples)
        rate = baseline.samples / ranks / baseline.seconds  # samples per second and rank
        if any(p.by == ON_PURPOSE or rate < (1 + _MIN_GAIN_RATIO) * p.rate for p in recorded):
            return
        steps = _with_samples(snapshot.steps, baseline.samples)
        point = Point(
            ranks=ranks,
            samples=baseline.samples,
            seconds=baseline.seconds,
            by=snapshot.job_id,
            recorded=snapshot.time,
            causes=_categories(steps, baseline.seconds),
            sent_bytes=sent_bytes_by_op(steps),
            ranks_per_host=_ranks_per_host(snapshot),
        )
        try:
            self._baselines.record(name, point)
            self._logged_errors.pop(name, None)
            self.error = None
        except ZmonError as error:
            self.error = str(error)
            self._log_once(name, f"{error}; jobs are compared with the baseline recorded before")

    def efficiency(self, snapshot: Snapshot, state: str) -> Efficiency | Unknown:
        """Return the job's efficiency now, or why it is unknown.

        `state`: the job's state in one word, as `zmon.hub.api.view.job_state` returns it; also in `compare`.
        """
        speed = self._speed(snapshot, state)
        if isinstance(speed, Unknown):
            return speed
        try:
            return speed.curve.efficiency(speed.size.ranks, speed.size.samples, speed.samples_per_second)
        except ArithmeticError as error:
            return self._unusable(speed.curve, error)

    def compare(self, snapshot: Snapshot, state: str) -> tuple[Efficiency | Unknown, ExpectedStep | Unknown]:
        """Return the job's efficiency now and its expected step. An Unknown has the reason why a value is not known."""
        speed = self._speed(snapshot, state)
        if isinstance(speed, Unknown):
            return speed, speed
        curve, size, seconds = speed
        categories = _categories(_with_samples(snapshot.steps, size.samples), seconds)
        try:
            efficiency = curve.efficiency(size.ranks, size.samples, speed.samples_per_second)
            return efficiency, expected_step(curve, size, seconds, categories)
        except ArithmeticError as error:
            unknown = self._unusable(curve, error)
            return unknown, unknown

    def model(self, snapshot: Snapshot) -> tuple[ScalingCurve, Model | Unknown]:
        """Return the curve of the job's name, and the model that predicts other sizes, or why there is no model."""
        curve, read_error = self._read(snapshot)
        if read_error or not curve.points:
            return curve, Unknown(read_error or f"no baseline is recorded for {curve.name}")
        try:
            return curve, fit(curve.points, OPS, ranks_per_host=_host_capacity(snapshot, curve))
        except ArithmeticError as error:
            return curve, self._unusable(curve, error)

    def _speed(self, snapshot: Snapshot, state: str) -> _Speed | Unknown:
        """Return the job's speed now with the curve of its name, or why one of them is unknown."""
        size = size_now(snapshot, state)
        if isinstance(size, Unknown):
            return size
        curve, error = self._read(snapshot)
        return Unknown(error) if error else _Speed(curve, *size)

    def _read(self, snapshot: Snapshot) -> tuple[ScalingCurve, str]:
        """Return the curve of the job's name, and why it cannot be read, or an empty text."""
        name = curve_name(snapshot)
        curve = self._baselines.curve(name)
        unusable = self._baselines.unusable.get(name)  # `curve` has just set it
        return curve, f"the baseline of {name} cannot be read: {unusable}" if unusable else ""

    def _unusable(self, curve: ScalingCurve, error: ArithmeticError) -> Unknown:
        """Return why a curve cannot be used, such as impossible numbers that a person entered in its file."""
        reason = f"the baseline of {curve.name} cannot be used: {error}"
        self._log_once(curve.name, reason)
        return Unknown(reason)

    def _log_once(self, name: str, text: str) -> None:
        if self._logged_errors.get(name) != text:
            log.error("%s", text)
        self._logged_errors[name] = text


def size_now(snapshot: Snapshot, state: str) -> tuple[JobSize, float] | Unknown:
    """Return the job's size and the seconds of its steps now, or why they are unknown."""
    if state != "train":
        return Unknown("no agent of its ranks answers" if state == "unknown" else f"the job is not training: {state}")
    window = snapshot.step_windows[-1] if snapshot.step_windows else None
    if window is None or not window.seconds:
        return Unknown("the job has not taken enough steps yet")
    if not window.samples:
        return Unknown(
            "the samples of a step are unknown: no batch was recognized, and the job does not call zmon.work(samples=…)"
        )
    return JobSize(snapshot.world_size, window.samples, _ranks_per_host(snapshot)), window.seconds


def curve_name(snapshot: Snapshot) -> str:
    """Return the name under which the job's baseline is recorded: its label `name`, else its program and user.

    A job whose program is unknown has its id as name. The program includes the arguments: with other arguments, one
    script may train another model.
    """
    lead = snapshot.reported_ranks[0]
    return _label(lead) or (f"u{lead.owner or 0}.{lead.program}" if lead.program else snapshot.job_id)


def pauses_name(snapshot: Snapshot) -> str:
    """Return the name under which the job's pauses are recorded: its label `name`, else its script, user and size."""
    lead = snapshot.reported_ranks[0]
    script = f"u{lead.owner or 0}.{lead.script}-{snapshot.world_size}"
    return _label(lead) or (script if lead.program else snapshot.job_id)


def _label(lead: RankState) -> str:
    """Return the job's label `name` as the name of a file; empty if it is not set or cannot be one."""
    label = _INVALID_CHARACTER.sub("_", lead.labels.get(NAME, ""))[:_MAX_NAME]
    return label if JOB_ID.fullmatch(label) else ""


def _ranks_per_host(snapshot: Snapshot) -> int:
    """Return the largest number of ranks that one host of the job has."""
    return max(Counter(r.host for r in snapshot.reported_ranks).values())


def _host_capacity(snapshot: Snapshot, curve: ScalingCurve) -> int:
    """Return how many ranks fit on a host.

    A job on several hosts shows it. A job on one host may leave room there, so the recorded jobs count as well.
    """
    current = _ranks_per_host(snapshot)
    if len({r.host for r in snapshot.reported_ranks}) > 1:
        return current
    return max([current, *(point.ranks_per_host or 1 for point in curve.points)])


def _with_samples(steps: Sequence[AlignedStep], samples: int) -> list[AlignedStep]:
    """Return the steps with about this number of samples, since the batch size may have changed a moment ago."""
    totals = [(step, total_samples(step)) for step in steps]
    return [step for step, total in totals if total is not None and are_similar(total, samples)]


def _categories(steps: Sequence[AlignedStep], seconds: float) -> dict[str, float]:
    """Divide `seconds` among time categories in the proportions of these steps; empty without steps."""
    totals: Counter[str] = Counter()
    for step in steps:
        totals.update(step_categories(step))
    total = sum(totals.values())
    return {name: seconds * category_seconds / total for name, category_seconds in totals.items() if category_seconds}
