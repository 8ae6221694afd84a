"""Build a Finding, the same way for every detector."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from zmon.job.own_timeouts import abort_seconds
from zmon.job.standing_out import standing_out
from zmon.schema.evidence import Checkpoint, Evidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import Severity
from zmon.schema.rank import RankState, RankStatus
from zmon.schema.row import row_of

MAX_ROWS = 1024  # ranks in the table of a finding; 16,384 rows have 5 MB, and a finding is written at each change


def drain(host: str) -> str:
    """Return the commands that take a host out of the pool; zmon never runs them."""
    return f"`kubectl cordon {host}`, or `scontrol update nodename={host} state=drain reason=zmon`"


def new_finding(
    snapshot: Snapshot,
    *,
    detector: str,
    cause: str,
    severity: Severity,
    proof: str,
    seconds_ago: float,
    confidence: float,
    summary: str,
    detail: str,
    evidence: Evidence,
    culprits: Sequence[RankState] = (),
    hosts: Sequence[str] = (),
    stalled: bool = False,
    lost_ratio: float | None = None,
    lasting_fault: str = "",
) -> Finding:
    """Return a Finding about `culprits` that began `seconds_ago`; without culprits no rank is named.

    `stalled` means that the job stands still, so that all GPU time is lost. Otherwise `lost_ratio` is the share of GPU
    time that is lost; None means none, or unknown. `lasting_fault` identifies a fault that outlives a launch; then
    launch, culprits and step are not part of the finding's id.
    """
    ranks = tuple(r.rank for r in culprits)
    culprit_hosts = tuple(r.host for r in culprits) or tuple(hosts)
    step = max(r.step for r in culprits or snapshot.reported_ranks)
    collective = next((r.in_flight for r in snapshot.ranks if r.in_flight), None)
    num_gpus = sum(1 for r in snapshot.reported_ranks if r.device != "cpu")
    lost = 1.0 if stalled else lost_ratio
    if stalled:
        saved = checkpoint_seconds(snapshot.reported_ranks)
        if (abort := abort_seconds(snapshot.ranks)) is not None:
            summary = f"{summary}; torch aborts the collective in {abort:.0f} s"
        detail = f"{detail} {_checkpoint_text(saved)}"
        checkpoint = None if saved is None else Checkpoint(round(saved, 1))
        evidence = msgspec.structs.replace(evidence, last_checkpoint=checkpoint)
    rows = standing_out(snapshot.ranks, MAX_ROWS, first=ranks)
    key: tuple[object, ...] = (detector, lasting_fault)
    if not lasting_fault:
        uid = min(r.run_uid for r in culprits or snapshot.reported_ranks)
        # A stall stays the same finding if its cause changes. A job that moves has another step in each snapshot.
        fault, onset_step = ("", step) if stalled else (cause, None)
        key = (uid, detector, fault, ranks or culprit_hosts, onset_step)
    text = "|".join(map(str, (snapshot.job_id, *key)))
    return Finding(
        id=hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
        job_id=snapshot.job_id,
        detector=detector,
        cause=cause,
        severity=severity,
        ranks=ranks,
        hosts=culprit_hosts,
        step=step,
        onset=snapshot.time - seconds_ago,
        detected=snapshot.time,
        confidence=confidence,
        summary=summary,
        detail=detail,
        runbook=f"docs/runbooks.md#{cause}",
        op=collective.op if collective else None,
        sequence=collective.sequence if collective else None,
        lost_gpu_hours=seconds_ago * num_gpus * lost / 3600 if num_gpus and lost is not None else None,
        evidence=msgspec.structs.replace(
            evidence, ranks=tuple(map(rank_row, rows)), num_ranks_left_out=len(snapshot.ranks) - len(rows) or UNSET
        ),
        as_of=snapshot.time,
        proof=proof,
    )


def checkpoint_seconds(ranks: Sequence[RankState]) -> float | None:
    """Return the age of the newest checkpoint by the clock of the host that wrote it; None if there is none."""
    ages = [
        r.step_seconds  # since the end of the last step or of the last checkpoint, whichever is later
        + max(0.0, r.last_step_time - r.last_checkpoint_time)
        for r in ranks
        if r.last_checkpoint_time is not None and r.last_step_time is not None
    ]
    return min(ages, default=None)


def _checkpoint_text(seconds: float | None) -> str:
    if seconds is None:
        return "zmon saw no checkpoint: a restart may begin at step 0."
    age = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
    return f"The last checkpoint was written {age} ago: a restart loses the work since then."


def rank_row(state: RankState) -> RankStatus:
    """Return the row of one rank in the table that goes with every finding; its last words are one line."""
    words = state.last_words  # empty if it ended normally
    return row_of(
        RankStatus,
        state,
        op=state.in_flight.op if state.in_flight else None,
        sequence=state.in_flight.sequence if state.in_flight else None,
        state_seconds=round(state.state_seconds, 3),
        overdue_seconds=round(state.overdue_seconds, 3),
        last_words=f"{words.type}: {words.message[:200]}" if words and (words.type or words.message) else None,
    )
