"""Makes the intent of a rule about a finding. Pure."""

from __future__ import annotations

from zmon.hub.acts.policy import ActRule
from zmon.job.restarts import is_over
from zmon.schema.act import CAPTURE, KILL_CULPRIT, STOP_RESTARTS, Intent
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState


def make_intent(rule: ActRule, finding: Finding, snapshot: Snapshot, now: float) -> Intent | None:
    """Return the intent of a rule that asks for an act about this finding; None if nothing is left to act on."""
    if rule.act not in (CAPTURE, STOP_RESTARTS) and is_over(snapshot):
        return None
    with_act = targets(rule.act, finding, snapshot)
    is_kill = rule.act == KILL_CULPRIT
    if is_kill and finding.ranks and not with_act:
        return None  # all culprits have ended
    first = snapshot.reported_ranks[0]
    return Intent(
        id=f"{finding.id}/{rule.name}",
        rule=rule.name,
        act=rule.act,
        mode=rule.mode,
        time=now,
        finding=finding.id,
        job_id=finding.job_id,
        launch_id=first.launch_id,
        attempt=snapshot.attempt,
        cause=finding.cause,
        proof=finding.proof,
        severity=finding.severity,
        confidence=finding.confidence,
        ranks=tuple(state.rank for state in with_act) if is_kill else finding.ranks,
        hosts=tuple(dict.fromkeys(finding.hosts)),
        run_uids=tuple(state.run_uid for state in with_act),
        step=finding.step,
        onset=finding.onset,
        labels=rule.labels.accepted(first.labels),
        capsule=finding.capsule,
    )


def targets(act: str, finding: Finding, snapshot: Snapshot) -> list[RankState]:
    """Return the ranks that the requests to agents name.

    For a kill these are the living ranks at fault; for an act on launchers, the first rank of each launcher.
    """
    if act == CAPTURE:
        return []
    if act == KILL_CULPRIT:
        return [r for r in snapshot.ranks if r.alive and r.rank in finding.ranks]
    return list({(r.host, r.launcher): r for r in reversed(snapshot.ranks)}.values())
