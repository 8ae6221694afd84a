"""Play one drill: start a job, let it train, strike, and write down what zmon says of it, and when.

Nothing here helps zmon: it is asked as people ask it, over HTTP, and by waiting for the page.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import psutil

from zmon.drills.casting import Cast, job_spec
from zmon.drills.drill import Drill, Scene, Strike
from zmon.drills.faults.sabotage import wait_until
from zmon.drills.orders import median_seconds, p99_seconds, steps_done
from zmon.drills.score import DrillRow, alert_of
from zmon.drills.stage import Job, PartName, ReceivedPage, Stage
from zmon.drills.targets import TARGETS
from zmon.errors import PartFailed, ZmonError
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

START_SECONDS = 120.0
WARM_STEPS = 12  # leases are learned by then
WARM_SECONDS = 6.0
LEARNED_SECONDS = 600.0  # a lease longer than that is none of training
RANDOM_SECONDS = 3.0  # the strike comes at any moment of these
LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 5.0  # beyond twice the target, or the most; then it was missed
MOST_SECONDS = 150.0
PAGE_PATIENCE_SECONDS = 15.0
PROMETHEUS_SECONDS = 30.0  # to start again, and to find its targets
SETTLE_SECONDS = 2.0  # for a second page, a refined verdict
CLOCK_SECONDS = 0.2  # by which a finding may seem older than its fault
ANSWER_SECONDS = 10.0  # within which whoever is asked for the outcome has to answer
WITNESSES: tuple[PartName, ...] = ("hub", "prometheus", "alertmanager")  # without all of them silence means nothing
# What may go wrong in a drill and is no reason to end a session of hours: the row says so, and the next one is played.
FAILURES = (
    ZmonError, OSError, LookupError, ValueError, psutil.Error, subprocess.SubprocessError, http.client.HTTPException,
    msgspec.MsgspecError,
)  # fmt: skip
_numbers = itertools.count(1)


def play(drill: Drill, stage: Stage | None, part: Cast) -> DrillRow:
    """One row. A fault that cannot be caused makes a row that says so; what cannot be played needs no stage."""
    row = DrillRow(
        drill.name, part.repeat, part.seed, part.kind, part.ranks, part.step_seconds,
        time=time.time(), stage=drill.stage, quiet=drill.quiet, proof=drill.proof, expected=drill.causes,
    )  # fmt: skip
    if why := drill.unavailable():
        return replace(row, skipped=why)
    assert stage is not None
    row = replace(row, job=f"drill-{next(_numbers)}")  # it says nothing: zmon reads it
    try:
        job = stage.start(job_spec(drill, part, row.job))
        try:
            scene = _set(drill, stage, job, part)
            usual, slow = median_seconds(job.folder), p99_seconds(job.folder)
            row = replace(row, rank=scene.rank, host=scene.host, median_seconds=usual, p99_seconds=slow)
            return (_watch if drill.quiet else _strike)(drill, scene, row)
        finally:
            job.end()
    except FAILURES as error:
        return replace(row, broken=str(error) if isinstance(error, ZmonError) else f"{type(error).__name__}: {error}")


def _set(drill: Drill, stage: Stage, job: Job, part: Cast) -> Scene:
    """Wait until the job is where it is to be struck. Raises ZmonError."""
    ready = _starts if drill.begins == "starting" else _trains
    if not wait_until(lambda: job.exit_code() is not None or ready(stage, job, part), START_SECONDS):
        raise ZmonError("the job does not train", f"not within {START_SECONDS:g} s", f"see {job.folder}/log")
    state = stage.ranks(job.spec.job_id).get(part.rank)
    if state is None or (job.exit_code() is not None and not job.spec.steps):
        raise ZmonError("the job ended before it was struck", "a rank failed", f"see {job.folder}/log")
    draw = part.random
    if drill.begins == "training":
        time.sleep(draw.uniform(0, RANDOM_SECONDS))
    return Scene(stage, job, part.rank, state.host, state.pid, draw)


def _starts(stage: Stage, job: Job, part: Cast) -> bool:
    state = stage.ranks(job.spec.job_id).get(part.rank)
    return state is not None and state.activity == "init"


def _trains(stage: Stage, job: Job, part: Cast) -> bool:
    if steps_done(job.folder) < WARM_STEPS:
        return False
    states = stage.ranks(job.spec.job_id).values()
    view = stage.job(job.spec.job_id)
    return len(states) == job.spec.ranks and view is not None and all(map(_learned, states))


def _learned(state: RankState) -> bool:
    warm = state.step_seconds_total >= WARM_SECONDS and state.activity == "train"
    return warm and state.lease_seconds is not None and state.lease_seconds < LEARNED_SECONDS


def _strike(drill: Drill, scene: Scene, row: DrillRow) -> DrillRow:
    """Cause the fault, wait for the finding and the page, lift it, wait for the end."""
    before = tuple(sorted({finding.cause for finding in _findings(scene, row.time)}))
    struck = drill.fault(scene)
    done = steps_done(scene.job.folder)
    due: float | None = None
    try:
        row, due = _hear(drill, scene, struck, replace(row, before=before, host=struck.host or scene.host), done)
    finally:
        if struck.lift is not None:
            with contextlib.suppress(ProcessLookupError):
                struck.lift()
    if struck.lift is not None and row.told is not None:
        row = replace(row, lifted=True, resolved_seconds=_until_resolved(scene))
    row = replace(row, lost=drill.afterwards(scene))
    if due is not None and (page := _page_about(scene, struck.onset, row)):
        row = replace(row, page_seconds=max(0.0, page.time - due))
    return replace(row, paged=_alerts(scene, struck.onset, "critical"), warned=_alerts(scene, struck.onset, "warning"))


def _hear(drill: Drill, scene: Scene, struck: Strike, row: DrillRow, done: int) -> tuple[DrillRow, float | None]:
    """What is found, and when; and since when a page is due: None where nothing is found, or it is found by a page.

    `done` steps were done at the onset.
    """
    usual, slow = row.median_seconds or row.step_seconds, row.p99_seconds or row.step_seconds
    target = TARGETS.finding_seconds(drill.proof, usual, slow, struck.lease_seconds)
    until = struck.onset + min(2 * target, MOST_SECONDS) + PATIENCE_SECONDS
    found, seen = _await_finding(drill, scene, struck, until)
    meanwhile = steps_done(scene.job.folder) - done if drill.proof == "steps" else None
    row = replace(row, target_seconds=target)
    if found is None or seen is None:
        return row, None
    row = replace(_told(drill, scene, struck, row, found), finding_seconds=seen - struck.onset, finding_steps=meanwhile)
    if isinstance(found, ReceivedPage):
        return row, None
    due = _scraped(scene) if struck.unscraped else seen
    wait_until(lambda: _page_about(scene, struck.onset, row), PAGE_PATIENCE_SECONDS)
    time.sleep(SETTLE_SECONDS)
    return _told(drill, scene, struck, row, found), due


def _scraped(scene: Scene) -> float:
    """When Prometheus scrapes again, or nobody waits any longer. It answers 5 s before it knows its targets."""
    asked = f"timestamp(up) > {time.time():.3f}"
    wait_until(lambda: scene.stage.query(asked), PROMETHEUS_SECONDS)
    return time.time()


def _until_resolved(scene: Scene) -> float | None:
    """Seconds until nothing stands against the job any more; None: longer than anybody waits."""
    begin, stage = time.monotonic(), scene.stage

    def over() -> bool:
        return stage.answers("hub") and not stage.findings(scene.job.spec.job_id)

    return time.monotonic() - begin if wait_until(over, TARGETS.resolve_seconds + PATIENCE_SECONDS) else None


def _await_finding(
    drill: Drill, scene: Scene, struck: Strike, until: float
) -> tuple[Finding | ReceivedPage | None, float | None]:
    """The first of the detector that should speak, or of any other if that says nothing; and when it was seen."""
    others: tuple[Finding | None, float | None] = (None, None)
    while time.time() < until:
        if not drill.detector:
            page = next((p for p in _pages(scene, struck.onset) if p.alert in drill.causes), None)
            if page is not None:
                return page, page.time
        for finding in _findings(scene, struck.onset):
            if finding.detector == drill.detector:
                return finding, time.time()
            others = others if others[0] else (finding, time.time())
        time.sleep(LOOK_SECONDS)
    return others


def _page_about(scene: Scene, since: float, row: DrillRow) -> ReceivedPage | None:
    """The first page that tells of what was found."""
    alert = alert_of(row.detector, row.severity or "")
    about = (p for p in _pages(scene, since) if p.alert == alert and p.labels.get("detector") == row.detector)
    return next(about, None)


def _told(drill: Drill, scene: Scene, struck: Strike, row: DrillRow, found: Finding | ReceivedPage) -> DrillRow:
    """Cause and culprit, as they stand now: a finding may have been refined."""
    if isinstance(found, ReceivedPage):
        return replace(row, told=found.alert, severity=found.severity, culprit_right=True)
    now = _findings(scene, struck.onset)
    found = next((f for f in now if f.id == found.id), found)
    rank, host = struck.rank if struck.rank is not None else scene.rank, struck.host or scene.host
    words = [word.format(rank=rank) for word in drill.evidence]
    right = {
        "rank": found.ranks == (rank,) and found.hosts == (host,),
        "host": set(found.hosts) == {host},
        "none": True,
    }[drill.culprit]
    text = msgspec.json.encode((found.summary, found.detail, found.evidence)).decode()
    return replace(
        row,
        told=found.cause,
        detector=found.detector,
        severity=found.severity,
        culprit_right=right,
        told_ranks=found.ranks,
        told_hosts=found.hosts,
        evidence_missing=tuple(word for word in words if word not in text),
        beside=tuple(sorted({f.cause for f in now if f.id != found.id and not _excused(drill, f)})),
    )


def _excused(drill: Drill, finding: Finding) -> bool:
    """Whether it is true as well, and wakes nobody."""
    return finding.severity == "warning" and finding.cause in drill.may_warn


def _watch(drill: Drill, scene: Scene, row: DrillRow) -> DrillRow:
    """Do what is ordinary, and see that nobody is woken, from the start of the job on. Raises PartFailed."""
    drill.fault(scene)
    time.sleep(drill.watch_seconds)
    wait_until(lambda: all(map(scene.stage.answers, WITNESSES)), ANSWER_SECONDS)
    if silent := [part for part in WITNESSES if not scene.stage.answers(part)]:
        what = f"{' and '.join(silent)} did not answer at the end"
        raise PartFailed(what, "nobody could have been woken", f"see {scene.stage.folder}")
    found = _findings(scene, row.time, siblings=True)
    excused = [f for f in found if _excused(drill, f)]
    told = {(finding.job_id, finding.detector) for finding in excused}  # what an alert about them is labelled with
    rang = [page for page in _pages(scene, row.time) if page.severity == "warning"]
    warned = {f.cause for f in found if f.severity == "warning" and f not in excused}
    warned |= {page.alert for page in rang if (page.job_id, page.labels.get("detector")) not in told}
    return replace(
        row,
        paged=_alerts(scene, row.time, "critical"),
        critical=tuple(sorted({finding.cause for finding in found if finding.severity == "critical"})),
        warned=tuple(sorted(warned)),
    )


def _findings(scene: Scene, since: float, siblings: bool = False) -> list[Finding]:
    """What was found about the job since then, oldest first; remarks that wake nobody are left out."""
    every = scene.stage.findings(None if siblings else scene.job.spec.job_id, active=False)
    news = [f for f in every if f.detected >= since - CLOCK_SECONDS and f.severity != "info" and _mine(scene, f.job_id)]
    return sorted(news, key=lambda finding: finding.detected)


def _pages(scene: Scene, since: float) -> Sequence[ReceivedPage]:
    """Whoever was woken since then about this job, or what belongs to it, or the monitor: each alert once."""
    first: dict[tuple[str, str], ReceivedPage] = {}
    for page in scene.stage.pages():
        if (page.job_id is None or _mine(scene, page.job_id)) and page.status == "firing":
            first.setdefault((page.fingerprint, page.began), page)
    return [page for page in first.values() if page.time >= since]


def _mine(scene: Scene, job_id: str) -> bool:
    """Whether that is the job, or another that its drill started beside it."""
    own = scene.job.spec.job_id
    return job_id == own or job_id.startswith(f"{own}-")


def _alerts(scene: Scene, since: float, severity: str) -> tuple[str, ...]:
    """The names of those that rang."""
    return tuple(sorted(page.alert for page in _pages(scene, since) if page.severity == severity))
