"""Play a drill that injects something harmless: watch for a while, and record all findings and pages."""

from __future__ import annotations

import time

from msgspec.structs import replace

from lab.drills.drill import Drill, Scene
from lab.drills.ending import observe
from lab.drills.reports import ANSWER_SECONDS, alerts_since, findings_since, pages_since
from lab.drills.score import DrillRow
from lab.drills.truth import true_fault
from lab.faults.sabotage import wait_until
from zmon.errors import PartFailed
from zmon.schema.finding import Finding


def is_excused(drill: Drill, finding: Finding) -> bool:
    """Return True if the finding is a warning with a cause that the drill allows."""
    return finding.severity == "warning" and finding.cause in drill.may_warn


def play_quiet(drill: Drill, scene: Scene, row: DrillRow) -> DrillRow:
    """Inject something harmless, and record all pages and findings since the start of the job. Raises PartFailed."""
    injection = drill.fault(scene)
    time.sleep(drill.watch_seconds)
    ending = observe(scene, injection.onset, row.p99_seconds or row.step_seconds)
    witnesses = scene.stage.witnesses
    wait_until(lambda: all(map(scene.stage.is_healthy, witnesses)), ANSWER_SECONDS)
    if silent := [part for part in witnesses if not scene.stage.is_healthy(part)]:
        what = f"{' and '.join(silent)} did not answer at the end"
        raise PartFailed(what, "no page could have been sent", f"see {scene.stage.folder}")
    findings = findings_since(scene, row.time, siblings=True)
    excused = [finding for finding in findings if is_excused(drill, finding)][: drill.max_warnings]
    warned = {finding.cause for finding in findings if finding.severity == "warning" and finding not in excused}
    excused_labels = {(finding.job_id, finding.detector) for finding in excused}  # an alert about a finding has both
    warned |= {
        page.alert
        for page in pages_since(scene, row.time)
        if page.severity == "warning" and (page.job_id, page.labels.get("detector")) not in excused_labels
    }
    return replace(
        row,
        truth=(true_fault(drill, scene, injection),),
        paged=alerts_since(scene, row.time, "critical"),
        critical=tuple(sorted({finding.cause for finding in findings if finding.severity == "critical"})),
        warned=tuple(sorted(warned)),
        moves=ending.moves,
        restarted=ending.restarted,
    )
