"""Put the saving of a replayed pipeline into a finding.

Detectors compare self times, as if all ranks waited for the slowest in each step. In a pipeline a stage also waits for
the others within a step, so that the replay is closer. Pure.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from zmon.offline.analyze.pipeline.what_if import PipelineReport, WhatIf
from zmon.schema.evidence import ImbalanceEvidence
from zmon.schema.finding import Finding


def with_replayed_saving(finding: Finding, report: PipelineReport) -> Finding:
    """Return the finding with the what-if of its ranks or of its stage; unchanged if the report has none."""
    what_if = _what_if_of(finding, report)
    if what_if is None:
        return finding
    saved = f"saves {what_if.saved_seconds:.3f} s of {report.seconds:.3f} s per step"
    return replace(
        finding,
        summary=f"{finding.summary}. A replay, in which stages wait for each other as recorded, {saved}",
        evidence=msgspec.structs.replace(
            finding.evidence, step_seconds=report.seconds, saved_seconds=what_if.saved_seconds
        ),
    )


def _what_if_of(finding: Finding, report: PipelineReport) -> WhatIf | None:
    if finding.ranks:
        return report.slowest if set(finding.ranks) == set(report.slowest.workers) else None
    role = finding.evidence_of(ImbalanceEvidence).role
    stage = next((what_if for what_if in report.stages if str(what_if.stage) == role), None)
    return stage or (report.even if finding.cause.endswith("_jitter") else None)
