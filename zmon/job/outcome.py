"""Decide how a launch ended: done, failed, cancelled, preempted, its node lost, or unknown. Pure.

The stall detector decides whether a fault ended the launch (docs/endings.md). Without a fault, the ends of the ranks
show whether the ranks had finished or were cancelled. Their last lines show whether a scheduler cancelled them
(docs/failures.md). Each launch has one end, and a helper process has no end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from zmon.job.ends import End, ends_of
from zmon.job.facts import began_to_end
from zmon.job.failures import Clues, Failure, classify
from zmon.job.failures.classes import BY_NAME, SCHEDULED
from zmon.job.failures.classes import UNKNOWN as UNKNOWN_CLASS
from zmon.job.rank_end import Way
from zmon.job.restarts import is_over, is_settled, launch_began, seconds_since_start
from zmon.job.signals import is_interrupted, sender_pid
from zmon.schema.ended_launch import (
    CANCELLED,
    DONE,
    FAILED,
    NODE_LOST,
    PREEMPTED,
    RECOVERY_PHASES,
    UNKNOWN_END,
    EndedLaunch,
    Restart,
)
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

_LOST_HOST = "host_lost"  # the cause of a finding about a host that does not answer
# Causes of findings that do not say of which class the failure is.
_CAUSES_WITHOUT_CLASS = ("rank_exited", "crash_loop", "unknown")
_BY_SCHEDULER = {"time_limit": CANCELLED, "preemption": PREEMPTED, "node_failure": NODE_LOST}


def has_ended(snapshot: Snapshot, fault: Finding | None) -> bool:
    """Return True if the launch has ended, and if its outcome will not change any more.

    Ranks of silent agents may live, so without a fault that explains the silence the launch has not ended. A helper
    that ended well is not a launch of a training job: it helps one, or was an attempt.
    """
    if not is_over(snapshot) or not is_settled(snapshot):
        return False
    return fault is not None or not (snapshot.unwatched or snapshot.missing or _is_helper(snapshot))


def _is_helper(snapshot: Snapshot) -> bool:
    """Return True for a single process that has done no step and no collective."""
    return snapshot.world_size == 1 and not any(r.steps or r.sequences for r in snapshot.ranks)


def launch_key(snapshot: Snapshot) -> str:
    """Return the id of a launch, which is the same in every hub and for as long as a rank of the launch is reported."""
    first = snapshot.reported_ranks[0]
    return f"{first.launch_id or first.run_uid}-{first.attempt}"


def ended_launch(
    snapshot: Snapshot, fault: Finding | None, view: JobView | None, output: tuple[str, ...] = ()
) -> EndedLaunch:
    """Return the end of this launch.

    `fault` is the finding about the fault that ended it, None without a fault. `view` is the view of the job, None if
    another launch runs. `output` has the last lines of the ranks that ended first.
    """
    ranks = snapshot.reported_ranks
    lead = max(ranks, key=lambda r: r.steps)
    gone = [r.gone_seconds or 0.0 for r in snapshot.ranks]
    outcome, summary = _outcome(snapshot, fault)
    failure = None if outcome == DONE else classify(_clues(snapshot, fault, output))
    if failure and failure.name in SCHEDULED:
        outcome, summary = _BY_SCHEDULER[failure.name], BY_NAME[failure.name].definition.removesuffix(".")
    elif failure and outcome != FAILED:
        failure = None  # nothing failed, whatever was printed
    return EndedLaunch(
        id=launch_key(snapshot),
        job_id=snapshot.job_id,
        attempt=snapshot.attempt,
        world_size=snapshot.world_size,
        hosts=tuple(sorted({r.host for r in ranks})),
        labels=lead.labels,
        owner=lead.owner,
        began=launch_began(snapshot),
        ended=snapshot.time - min(gone),
        recorded=snapshot.time,
        outcome=outcome,
        summary=summary,
        step=max(r.step for r in ranks),
        steps=lead.steps,
        first_step=first_step(lead),
        restarts=lead.restart_count,
        max_restarts=lead.max_restarts,
        cause=fault.cause if fault else "",
        severity=fault.severity if fault else "",
        ranks=fault.ranks if fault else (),
        culprit_hosts=fault.hosts if fault else (),
        finding=fault.id if fault else "",
        runbook=fault.runbook if fault else "",
        next_step=_next_step(fault, failure),
        failure=failure.name if failure else "",
        clue=failure.clue if failure else "",
        detection_seconds=_detection_seconds(snapshot, fault, max(gone)),
        teardown_seconds=max(gone) - min(gone),
        time=view.time if view else {},
        goodput_ratio=view.goodput_ratio if view else None,
    )


def _next_step(fault: Finding | None, failure: Failure | None) -> str:
    """Return the next step of the failure's class if the class says more than the fault, else that of the fault."""
    if failure and failure.name != UNKNOWN_CLASS and (fault is None or fault.cause in _CAUSES_WITHOUT_CLASS):
        return failure.next_step
    return fault.detail if fault else ""


def _detection_seconds(snapshot: Snapshot, fault: Finding | None, gone_seconds: float) -> float | None:
    """Return the time from the fault to the first end of a rank, `gone_seconds` ago; None if it is not known.

    A fault that is first reported now, after the end, seems to begin with the end, however long the ranks hung.
    """
    if fault is None or fault.detected >= snapshot.time:
        return None
    return max(0.0, snapshot.time - gone_seconds - fault.onset)


def _clues(snapshot: Snapshot, fault: Finding | None, output: tuple[str, ...]) -> Clues:
    """Return the clues about the end of the culprit, or of the first rank to end."""
    culprits = fault.ranks if fault else ()
    rank = min(snapshot.ranks, key=lambda r: (r.rank not in culprits, r.activity == "done", began_to_end(r).latest))
    memory = fault.evidence_of(StallEvidence).out_of_memory if fault else UNSET
    kernel_log = (memory,) if isinstance(memory, str) and memory else ()
    return Clues(rank.last_words, rank.exit_status, kernel_log, output)


def first_step(state: RankState) -> int | None:
    """Return the number of the first step that a rank finished, above the first number if it resumed; None: no step."""
    if not state.steps:
        return None
    in_training = state.activity == "train"  # then `step` is the current one, which is not finished
    return state.step - state.steps + (not in_training)


def restarted(end: EndedLaunch, snapshot: Snapshot) -> EndedLaunch:
    """Return the end with the restart that followed it, as far as this snapshot shows the restart.

    The first step of the restart is the step of the first record. The first of many short steps may have no record.
    """
    if snapshot.attempt <= end.attempt or (end.restart and end.restart.attempt != snapshot.attempt):
        return end
    if end.restart and end.restart.first_step is not None:
        return end
    if not snapshot.steps or not all(r.steps for r in snapshot.ranks):
        return msgspec.structs.replace(end, restart=Restart(snapshot.attempt))
    restart = Restart(snapshot.attempt, snapshot.steps[0].step, _recovery(end, snapshot))
    return msgspec.structs.replace(end, restart=restart)


def _recovery(end: EndedLaunch, snapshot: Snapshot) -> dict[str, float]:
    """Return the seconds of the recovery after this end, by RECOVERY_PHASES; this launch has just begun to step."""
    lead = max(snapshot.ranks, key=lambda r: r.steps)
    began = launch_began(snapshot)
    starting = max(0.0, began - end.ended)
    imports = max(snapshot.reported_ranks, key=seconds_since_start).import_seconds
    imports = None if imports is None else min(imports, starting)
    launching = starting - (imports or 0.0)
    initializing = snapshot.time - lead.step_seconds_total - lead.step_seconds - began
    stepping = lead.step_seconds_total / lead.steps
    durations = (end.detection_seconds, end.teardown_seconds, launching, imports, initializing, stepping)
    return {p: max(0.0, seconds) for p, seconds in zip(RECOVERY_PHASES, durations, strict=True) if seconds is not None}


def followed(end: EndedLaunch, by: EndedLaunch) -> EndedLaunch:
    """Return the end with the exact first step of the launch `by`, which followed it and has ended too."""
    if end.restart is None or end.restart.attempt != by.attempt:
        return end
    return msgspec.structs.replace(end, restart=msgspec.structs.replace(end.restart, first_step=by.first_step))


def _outcome(snapshot: Snapshot, fault: Finding | None) -> tuple[str, str]:
    """Return the outcome of the launch, and a line that explains the outcome."""
    if fault is not None:
        if fault.cause == _LOST_HOST:
            return NODE_LOST, fault.summary
        is_unclear = fault.cause == "unknown" and fault.severity != "critical"
        return UNKNOWN_END if is_unclear else FAILED, fault.summary
    ends = ends_of(snapshot.ranks, snapshot.waiters)
    num_ranks = len(snapshot.ranks)
    who = f"all {num_ranks} ranks" if num_ranks > 1 else "its rank"
    step = max(r.step for r in snapshot.ranks)
    if cancelled := [end for end in ends if end.way is Way.CANCELLED or _left_after_a_signal(end.rank)]:
        step_and_way = f"at step {step} ({_ended_by(cancelled)})"
        if any(sender_pid(end.rank) is not None or is_interrupted(end.rank) for end in cancelled):
            return CANCELLED, f"its owner ended {who} {step_and_way}"
        return CANCELLED, f"{who} ended {step_and_way}, as if by the owner; nothing shows who sent the signal"
    if all(end.way is Way.FINISHED for end in ends):
        return DONE, f"{who} finished at step {step}"
    return UNKNOWN_END, f"{who} ended at step {step} ({_ended_by(ends)}), and no fault explains it"


def _left_after_a_signal(state: RankState) -> bool:
    """Return True if the rank saved and left cleanly after a SIGTERM."""
    words = state.last_words
    return words is not None and (words.kind == "signal" or words.sender_pid is not None)


def _ended_by(ends: Sequence[End]) -> str:
    """Return the most frequent way in which these ranks ended, as their last words or their kernel report it."""
    return Counter(_last_line(end.rank) for end in ends).most_common(1)[0][0]


def _last_line(state: RankState) -> str:
    """Return the signal or the exception of a rank's last words, or else its exit status."""
    words = state.last_words
    if words is not None and words.kind == "signal":
        return words.type
    if words is not None and words.kind == "exception":
        return words.error.removesuffix(": ")
    return state.exit_status or "exit status unknown"
