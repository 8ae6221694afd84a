"""Play one drill: start a job, let it train, cause the fault, and record the reports of zmon and their times.

The drill gives zmon no hint. It uses the interfaces that people use: HTTP, and the webhook that receives pages.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import subprocess
import time
from typing import NamedTuple

import msgspec
import psutil
from msgspec.structs import replace

from lab.drills.draw import Draw, job_spec
from lab.drills.drill import Drill, Injection, Scene
from lab.drills.ending import observe
from lab.drills.quiet_play import is_excused, play_quiet
from lab.drills.reports import acts_of, alerts_since, findings_since, page_about, pages_since
from lab.drills.score import DrillRow, counts
from lab.drills.targets import TARGETS
from lab.drills.truth import true_fault
from lab.faults.sabotage import wait_until
from lab.jobs.orders import median_seconds, p99_seconds, seconds_to_steps, steps_done
from lab.stage import ReceivedPage, Stage
from lab.stage.launched import Launched
from zmon.errors import ZmonError
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

START_SECONDS = 300.0  # a job must train within this time, on a machine with much else to do
WARM_STEPS = 12  # leases are learned by then
WARM_SECONDS = 6.0  # step time that each rank must have before the fault
LEARNED_SECONDS = 600.0  # a longer lease is not a learned lease of training
MAX_DELAY_SECONDS = 3.0  # the fault is caused at a random time within this interval
POLL_SECONDS = 0.05
# A fault is missed if no finding comes within twice the target, at most MAX_SECONDS, plus the time of EFFECT_STEPS and
# EXTRA_SECONDS.
EFFECT_STEPS = 3
EXTRA_SECONDS = 5.0
MAX_SECONDS = 150.0
PAGE_TIMEOUT_SECONDS = 15.0
PROMETHEUS_SECONDS = 30.0  # time for Prometheus to start again and to discover its targets
DEAD_SECONDS = 40.0  # a job that nobody has started again must page within this time
SETTLE_SECONDS = 2.0  # time for a second page or a refined diagnosis
# Errors that can happen in a drill and must not end a session of hours: the row has the error, and the next drill runs.
FAILURES = (
    ZmonError, OSError, LookupError, ValueError, psutil.Error, subprocess.SubprocessError, http.client.HTTPException,
    msgspec.MsgspecError,
)  # fmt: skip
_numbers = itertools.count(1)


class _Report(NamedTuple):
    """The first report about the fault, and its time in unix seconds."""

    content: Finding | ReceivedPage
    time: float


def play(drill: Drill, stage: Stage | None, draw: Draw) -> DrillRow:
    """Play a drill and return its row.

    If the fault cannot be caused, the row says so. A drill that cannot be played on this machine needs no stage.
    """
    row = DrillRow(
        drill.name, draw.repeat, draw.seed, draw.kind, draw.ranks, draw.step_seconds,
        time=time.time(), stage=stage.name if stage else drill.stage, quiet=drill.quiet, proof=drill.proof,
        expected=drill.causes,
    )  # fmt: skip
    if reason := drill.unavailable():
        return replace(row, skipped=reason)
    if stage is not None and stage.policy and not drill.with_acts:
        return replace(row, skipped="zmon would act before the fault is complete")
    assert stage is not None
    row = replace(row, job=f"drill-{next(_numbers)}")  # the name gives no hint, because zmon reads it
    try:
        if stage.policy:
            stage.forget_acts()
        job = stage.start(job_spec(drill, draw, row.job))
        try:
            scene = await_scene(drill, stage, job, draw)
            row = replace(
                row,
                rank=scene.rank,
                host=scene.host,
                median_seconds=median_seconds(job.folder),
                p99_seconds=p99_seconds(job.folder),
            )
            row = play_quiet(drill, scene, row) if drill.quiet else _play_fault(drill, scene, row)
            again = seconds_to_steps(scene.job.folder, row.truth[0].time) if row.restarted else None
            return replace(row, shown=stage.published(row.job), acts=acts_of(stage, row.job), again_seconds=again)
        finally:
            job.end()
    except FAILURES as error:
        return replace(row, broken=str(error) if isinstance(error, ZmonError) else f"{type(error).__name__}: {error}")


def await_scene(drill: Drill, stage: Stage, job: Launched, draw: Draw) -> Scene:
    """Wait until the job is ready for the fault. Raises ZmonError if it does not become ready."""
    ready = _is_starting if drill.begins == "starting" else _is_training
    if not wait_until(lambda: job.exit_code() is not None or ready(stage, job, draw), START_SECONDS):
        is_unseen = drill.begins == "training" and steps_done(job.folder) >= WARM_STEPS
        timeout = f"it was not ready within {START_SECONDS:g} s"
        reason = "it trains, and zmon does not report it" if is_unseen else timeout
        raise ZmonError("the job does not train", reason, f"see {job.folder}/log")
    state = stage.ranks(job.spec.job_id).get(draw.rank)
    if state is None or (job.exit_code() is not None and not job.spec.steps):
        raise ZmonError("the job ended before the fault", "a rank failed", f"see {job.folder}/log")
    random = draw.random
    if drill.begins == "training":
        time.sleep(random.uniform(0, MAX_DELAY_SECONDS))
    return Scene(stage, job, draw.rank, state.host, state.pid, random)


def _is_starting(stage: Stage, job: Launched, draw: Draw) -> bool:
    state = stage.ranks(job.spec.job_id).get(draw.rank)
    return state is not None and state.activity == "init"


def _is_training(stage: Stage, job: Launched, draw: Draw) -> bool:
    if steps_done(job.folder) < WARM_STEPS:
        return False
    states = stage.ranks(job.spec.job_id).values()
    view = stage.job(job.spec.job_id)
    return len(states) == job.spec.ranks and view is not None and all(map(_has_learned_lease, states))


def _has_learned_lease(state: RankState) -> bool:
    is_warm = state.step_seconds_total >= WARM_SECONDS and state.activity == "train"
    return is_warm and state.lease_seconds is not None and state.lease_seconds < LEARNED_SECONDS


def _play_fault(drill: Drill, scene: Scene, row: DrillRow) -> DrillRow:
    """Cause the fault, wait for the finding and the page, lift the fault, and wait until the finding is resolved."""
    causes_before = tuple(sorted({finding.cause for finding in findings_since(scene, row.time)}))
    injection = drill.fault(scene)
    steps_at_onset = steps_done(scene.job.folder)
    due: float | None = None
    try:
        row = replace(row, before=causes_before, host=injection.host or scene.host)
        row, due = _await_report(drill, scene, injection, row, steps_at_onset)
        row = _await_end(scene, injection, row)
    finally:
        if injection.lift is not None:
            with contextlib.suppress(ProcessLookupError):
                injection.lift()
    row = replace(row, truth=(true_fault(drill, scene, injection),))
    acts = acts_of(scene.stage, row.job)  # after an act the lift mends nothing
    if injection.lift is not None and row.reported_cause is not None and not acts:
        row = replace(row, lifted=True, resolved_seconds=_await_resolved(scene))
    row = replace(row, lost=drill.afterwards(scene))
    if due is not None and (page := page_about(scene, injection.onset, row)):
        row = replace(row, page_seconds=max(0.0, page.time - due))
    paged, warned = (alerts_since(scene, injection.onset, severity) for severity in ("critical", "warning"))
    return replace(row, paged=paged, warned=warned)


def _await_report(
    drill: Drill, scene: Scene, injection: Injection, row: DrillRow, steps_at_onset: int
) -> tuple[DrillRow, float | None]:
    """Wait for the finding and for the page about it; return the row, and the time from which a page is due.

    The time is None if nothing is reported, or if the page itself is the report.
    """
    median = row.median_seconds or row.step_seconds
    p99 = row.p99_seconds or row.step_seconds
    target = TARGETS.finding_seconds(drill.proof, median, p99, injection.lease_seconds)
    # The second of two faults may take seconds, and a broken connection is used again in the next step.
    until = time.time() + min(2 * target, MAX_SECONDS) + EFFECT_STEPS * p99 + EXTRA_SECONDS
    report = _await_finding(drill, scene, injection, until)
    if report is None and not observe(scene, injection.onset, p99).moves:  # a late report is not a missed one
        until += TARGETS.finding_seconds("silence", median, p99) + EXTRA_SECONDS
        report = _await_finding(drill, scene, injection, until)
    steps = steps_done(scene.job.folder) - steps_at_onset if drill.proof == "steps" else None
    row = replace(row, target_seconds=target)
    if report is None:
        return row, None
    finding = report.content
    row = _with_diagnosis(drill, scene, injection, row, finding)
    row = replace(row, finding_seconds=report.time - injection.onset, finding_steps=steps)
    if isinstance(finding, ReceivedPage):
        return row, None
    due: float | None = report.time
    if finding.is_stall and drill.proof in ("silence", "lease"):
        limit = TARGETS.critical_seconds(target, p99)
        until = max(injection.onset + limit, report.time) + EXTRA_SECONDS  # a late finding may be critical at once
        due = _await_critical(scene, finding, until)
        row = _with_diagnosis(drill, scene, injection, row, finding)
        row = replace(row, critical_target_seconds=limit)
        row = replace(row, critical_seconds=None if due is None else due - injection.onset)
    if injection.unscraped:
        due = _await_scrape(scene)
    if scene.stage.witnesses:
        wait_until(lambda: page_about(scene, injection.onset, row), PAGE_TIMEOUT_SECONDS)
    time.sleep(SETTLE_SECONDS)
    if acts_of(scene.stage, row.job):  # from now on the finding is about the rank that was killed
        return row, due
    return _with_diagnosis(drill, scene, injection, row, finding), due


def _await_end(scene: Scene, injection: Injection, row: DrillRow) -> DrillRow:
    """Return the row with the state of the job; wait for a page if the job stands still and there is none yet."""
    ending = observe(scene, injection.onset, row.p99_seconds or row.step_seconds, row.expected)
    if scene.stage.witnesses and not ending.moves and not ending.restarted:
        wait_until(lambda: alerts_since(scene, injection.onset, "critical"), DEAD_SECONDS)
    return replace(row, moves=ending.moves, restarted=ending.restarted)


def _await_critical(scene: Scene, finding: Finding, until: float) -> float | None:
    """Wait until the finding is critical; return the time in unix seconds, or None if it did not become critical."""
    while time.time() < until:
        current = next((known for known in findings_since(scene, finding.detected) if known.id == finding.id), finding)
        if current.severity == "critical":
            return time.time()
        if current.resolved is not None:
            return None
        time.sleep(POLL_SECONDS)
    return None


def _await_scrape(scene: Scene) -> float:
    """Wait until Prometheus scrapes again, for a limited time; return the time in unix seconds.

    Prometheus answers 5 s before it knows its targets.
    """
    query = f"timestamp(up) > {time.time():.3f}"
    wait_until(lambda: scene.stage.query(query), PROMETHEUS_SECONDS)
    return time.time()


def _await_resolved(scene: Scene) -> float | None:
    """Wait until no finding that counts is open; return the elapsed seconds, or None if it took too long."""
    begin = time.monotonic()

    def is_resolved() -> bool:
        findings = scene.stage.findings(scene.job.spec.job_id)
        return scene.stage.is_healthy("hub") and not any(map(counts, findings))

    return time.monotonic() - begin if wait_until(is_resolved, TARGETS.resolve_seconds + EXTRA_SECONDS) else None


def _await_finding(drill: Drill, scene: Scene, injection: Injection, until: float) -> _Report | None:
    """Return the first finding of the expected detector, or else the first finding of any other detector.

    A drill without a detector expects a page instead. None: nothing is reported until then.
    """
    other: _Report | None = None
    began = time.time()  # the second of two faults may take seconds, and a finding may be older than that
    while time.time() < until:
        if not drill.detector:
            page = next((page for page in pages_since(scene, injection.onset) if page.alert in drill.causes), None)
            if page is not None:
                return _Report(page, page.time)
        for finding in findings_since(scene, injection.onset):
            report = _Report(finding, finding.detected if finding.detected < began else time.time())
            if finding.detector == drill.detector:
                return report
            other = other or report
        time.sleep(POLL_SECONDS)
    return other


def _with_diagnosis(
    drill: Drill, scene: Scene, injection: Injection, row: DrillRow, report: Finding | ReceivedPage
) -> DrillRow:
    """Return the row with the current cause and culprit, because the finding may have been updated."""
    if isinstance(report, ReceivedPage):
        return replace(row, reported_cause=report.alert, severity=report.severity, culprit_right=True)
    findings = findings_since(scene, injection.onset)
    finding = next((finding for finding in findings if finding.id == report.id), report)
    rank = scene.rank if injection.rank is None else injection.rank
    evidence = [word.format(rank=rank) for word in drill.evidence]
    text = msgspec.json.encode((finding.summary, finding.detail, finding.evidence)).decode()
    others = {other.cause for other in findings if other.id != finding.id and not is_excused(drill, other)}
    return replace(
        row,
        reported_cause=finding.cause,
        detector=finding.detector,
        severity=finding.severity,
        culprit_right=_names_culprit(drill, injection, finding, rank, injection.host or scene.host),
        reported_ranks=finding.ranks,
        reported_hosts=finding.hosts,
        struck_too=injection.others,
        confidence=finding.confidence,
        evidence_missing=tuple(word for word in evidence if word not in text),
        beside=tuple(sorted(others)),
    )


def _names_culprit(drill: Drill, injection: Injection, finding: Finding, rank: int, host: str) -> bool:
    """Return True if the finding names whom the fault struck, and nobody else. `rank` and `host` were struck."""
    match drill.culprit:
        case "rank":
            is_struck = {rank, *injection.others}.issuperset(finding.ranks)
            return bool(finding.ranks) and is_struck and set(finding.hosts) == {host}
        case "host":
            return set(finding.hosts) == {host}
        case "pair":
            return set(finding.hosts) == {host, injection.peer} and not finding.ranks
        case "none":
            return True
