"""How a conclusion is written down, the same for every detector."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from zmon.schema.evidence import Checkpoint, Evidence, RankStatus
from zmon.schema.finding import Finding
from zmon.schema.names import Severity
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot


def drain(host: str) -> str:
    """What takes a host out of the pool; never run by zmon."""
    return f"`kubectl cordon {host}`, or `scontrol update nodename={host} state=drain reason=zmon`"


def verdict(
    snapshot: Snapshot,
    *,
    detector: str,
    cause: str,
    severity: Severity,
    culprits: Sequence[RankState],
    seconds_ago: float,
    confidence: float,
    summary: str,
    detail: str,
    evidence: Evidence,
    hosts: Sequence[str] = (),
    stalled: bool = True,
    lost_ratio: float | None = None,
) -> Finding:
    """A Finding about `culprits` (none: nobody is named) that began `seconds_ago`; `stalled`: the job stands still.

    `lost_ratio` is the part of the GPUs' time that is lost where it goes on; None: none of it, or it is not known.
    """
    ranks = tuple(r.rank for r in culprits)
    named = tuple(r.host for r in culprits) or tuple(hosts)
    step = max(r.step for r in culprits or snapshot.reported_ranks)
    uid = min(r.run_uid for r in culprits or snapshot.reported_ranks)
    op = next((r.in_flight for r in snapshot.ranks if r.in_flight), None)
    num_gpus = sum(1 for r in snapshot.reported_ranks if r.device != "cpu")
    lost = 1.0 if stalled else lost_ratio
    onset_step = step if stalled else None  # a job that goes on has another step at each look
    fault = cause if onset_step is None else ""  # a stall may change its cause, and is the same stall
    saved = checkpoint_seconds(snapshot.reported_ranks) if stalled else None
    if stalled:
        detail = f"{detail} {_would_be_lost(saved)}"
        checkpoint = None if saved is None else Checkpoint(round(saved, 1))
        evidence = msgspec.structs.replace(evidence, last_checkpoint=checkpoint)
    key = "|".join(map(str, (snapshot.job_id, uid, detector, fault, ranks or named, onset_step)))
    return Finding(
        id=hashlib.blake2b(key.encode(), digest_size=8).hexdigest(),
        job_id=snapshot.job_id,
        detector=detector,
        cause=cause,
        severity=severity,
        ranks=ranks,
        hosts=named,
        step=step,
        onset=snapshot.time - seconds_ago,
        detected=snapshot.time,
        confidence=confidence,
        summary=summary,
        detail=detail,
        runbook=f"docs/runbooks.md#{cause}",
        op=op.op if op else None,
        sequence=op.sequence if op else None,
        lost_gpu_hours=seconds_ago * num_gpus * lost / 3600 if num_gpus and lost is not None else None,
        evidence=msgspec.structs.replace(evidence, ranks=tuple(map(rank_row, snapshot.ranks))),
    )


def checkpoint_seconds(ranks: Sequence[RankState]) -> float | None:
    """How long ago the newest checkpoint was written, by the clock of the host that wrote it; None: none was seen."""
    ages = [
        r.step_seconds + max(0.0, r.last_step_time - r.last_checkpoint_time)  # a step ends, or a checkpoint does
        for r in ranks
        if r.last_checkpoint_time is not None and r.last_step_time is not None
    ]
    return min(ages, default=None)


def _would_be_lost(seconds: float | None) -> str:
    if seconds is None:
        return "No checkpoint was seen: a new start may begin at the beginning."
    ago = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
    return f"The last checkpoint was written {ago} ago: that much is lost by a new start."


def rank_row(state: RankState) -> RankStatus:
    """What one rank was at, as a row of the table that goes with every finding."""
    return RankStatus(
        rank=state.rank,
        host=state.host,
        pid=state.pid,
        alive=state.alive,
        process_state=state.process_state,
        exit_status=state.exit_status,
        activity=state.activity,
        phase=state.phase,
        step=state.step,
        op=state.in_flight.op if state.in_flight else None,
        sequence=state.in_flight.sequence if state.in_flight else None,
        state_seconds=round(state.state_seconds, 3),
        overdue_seconds=round(state.overdue_seconds, 3),
        last_words=_said(state),
    )


def _said(state: RankState) -> str | None:
    """Its last words in a line; one that ended well left none."""
    words = state.last_words
    return f"{words.type}: {words.message[:200]}" if words and (words.type or words.message) else None
