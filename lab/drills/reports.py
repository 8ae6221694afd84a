"""Read the reports of zmon about the job of a drill: its findings, and the pages that the webhook received."""

from __future__ import annotations

from collections.abc import Sequence

from lab.drills.acts import CLOCK_SECONDS, is_act
from lab.drills.drill import Scene
from lab.drills.score import DrillRow, alert_of, counts
from lab.faults.sabotage import wait_until
from lab.stage import ReceivedPage, Stage
from zmon.errors import PartFailed
from zmon.schema.act import Intent
from zmon.schema.finding import Finding

ANSWER_SECONDS = 10.0  # every witness must answer within this time


def findings_since(scene: Scene, since: float, siblings: bool = False) -> list[Finding]:
    """Return the findings about the job since then that count, oldest first.

    `siblings`: also those about jobs that the drill started beside it.
    """
    findings = scene.stage.findings(None if siblings else scene.job.spec.job_id, active=False)
    recent = [finding for finding in findings if finding.detected >= since - CLOCK_SECONDS and counts(finding)]
    return sorted(
        (finding for finding in recent if is_of_drill(scene, finding.job_id)), key=lambda finding: finding.detected
    )


def pages_since(scene: Scene, since: float) -> Sequence[ReceivedPage]:
    """Return the first page of each alert since then, about the job, its siblings, or the monitor itself."""
    first: dict[tuple[str, str], ReceivedPage] = {}
    for page in scene.stage.pages():
        if (page.job_id is None or is_of_drill(scene, page.job_id)) and page.status == "firing":
            first.setdefault((page.fingerprint, page.began), page)
    return [page for page in first.values() if page.time >= since]


def acts_of(stage: Stage, job_id: str) -> tuple[Intent, ...]:
    """Return what zmon did about a job, oldest first. Raises PartFailed if the hub does not say it."""
    if stage.policy is None:
        return ()
    wait_until(lambda: stage.intents() is not None, ANSWER_SECONDS)
    intents = stage.intents()
    if intents is None:
        raise PartFailed("the hub did not say what it did", "it does not answer", f"see {stage.folder}")
    acts = [intent for intent in intents if is_act(intent) and _is_of(job_id, intent.job_id)]
    return tuple(sorted(acts, key=lambda act: act.time))


def is_of_drill(scene: Scene, job_id: str) -> bool:
    """Return True for the drill's job and for another job that the drill started beside it."""
    return _is_of(scene.job.spec.job_id, job_id)


def _is_of(drill_job_id: str, job_id: str) -> bool:
    return job_id == drill_job_id or job_id.startswith(f"{drill_job_id}-")


def alerts_since(scene: Scene, since: float, severity: str) -> tuple[str, ...]:
    """Return the names of the alerts of this severity that fired since then."""
    return tuple(sorted(page.alert for page in pages_since(scene, since) if page.severity == severity))


def page_about(scene: Scene, since: float, row: DrillRow) -> ReceivedPage | None:
    """Return the first page about the finding in the row, or None."""
    alert = alert_of(row.detector, row.severity or "")
    matching = (
        page
        for page in pages_since(scene, since)
        if page.alert == alert and page.labels.get("detector") == row.detector
    )
    return next(matching, None)
