"""Judge a random play of a real job: every state of every finding that was published, against the truth. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lab.drills.acts import CLOCK_SECONDS
from lab.drills.result import Result
from lab.drills.score import TRUE_OF_EVERY_JOB, DrillRow
from lab.drills.tally import Outcome
from lab.drills.truth import TrueFault
from lab.stage import Shown
from zmon.schema.names import STALL

# What proves a fault, by the proof of its drill: a process that ended or is stopped, or the order of collectives.
EVIDENCE = {"state": "state", "silence": "sequence", "steps": "steps"}
END_CAUSES = ("rank_exited", "uneven_end", "connection_lost")  # a launcher with restarts left ends these faults
MAY_PASS = ("skip", "swallow")  # a collective that is left out may pair with the next one
AS_EXPECTED: tuple[Result, ...] = ("right", "late", "quiet", "restarted")
ENDS_BY_OWNER = ("cancel-term", "cancel-int")


def outcome(row: DrillRow) -> Outcome:
    """Return the outcome of one play of a real job, which the tally counts."""
    fault = row.drill.partition("+")[0]
    evidence = "none" if row.quiet else EVIDENCE.get(row.proof, "none")
    diagnosis = next((shown for shown in _counted_states(row) if shown.ranks), None)
    confidence = diagnosis.confidence if diagnosis and not row.quiet else None
    return Outcome(fault, evidence, result_of(row), confidence, row.skipped)


def deviation(row: DrillRow) -> str | None:
    """Return a line about a play, with the reason for a broken one; None if its result is as expected."""
    result = result_of(row)
    if result in AS_EXPECTED:
        return None
    shown = (*_counted_states(row), *row.afterwards)
    reported = ", ".join(dict.fromkeys(f"{state.cause} {list(state.ranks)}" for state in shown)) or "nothing"
    struck = ", ".join(f"{fault.fault} {'nobody' if fault.rank is None else fault.rank}" for fault in row.truth)
    reason = row.skipped or row.broken or "; ".join(row.wrong_acts) or f"reported {reported}; struck {struck}"
    job = f"{row.kind}, {row.ranks} × {row.step_seconds:g} s, {row.launcher}, {row.max_restarts} restarts"
    return f"{row.seed}:{row.repeat} {row.drill} [{job}] {result}: {reason}"


def result_of(row: DrillRow) -> Result:
    """Return the result of a play."""
    if row.skipped or row.broken or row.wrong_acts:
        return row.result
    if names_innocent(row.truth, (*row.shown, *row.afterwards)):
        return "wrong name"
    shown = _counted_states(row)
    if not any(fault.causes for fault in row.truth):
        return _quiet_result(row, shown)
    is_critical = any(state.severity == "critical" for state in shown)
    is_mended = row.restarted and row.moves and all(map(_ends_with_launch, row.truth))
    if is_mended and is_critical:
        return "false page"
    if not row.moves and not row.restarted:
        if not any(state.detector == STALL for state in shown):
            return "silent"
        if not is_critical or not row.paged:
            return "unpaged"
    if shown:
        return _diagnosis_result(row, shown)
    if row.restarted:
        return "restarted"
    may_pass = all(fault.fault in MAY_PASS for fault in row.truth if fault.causes)
    return "no effect" if may_pass else "missed"


def names_innocent(truth: Sequence[TrueFault], shown: Sequence[Shown]) -> bool:
    """Return True if a published state of a finding names a rank that no fault explains, or before any fault."""
    onset = min((fault.time for fault in truth), default=0.0) - CLOCK_SECONDS
    for state in shown:
        faults = truth if state.detected >= onset else ()
        explained = {fault.rank for fault in faults if _explains(fault, state.cause)}
        if state.severity != "info" and set(state.ranks) - explained:
            return True
    return False


def _explains(fault: TrueFault, cause: str) -> bool:
    """Return True if a finding with this cause may name the rank of the fault; a pause explains warnings about itself.

    A first diagnosis of a fault may have another cause.
    """
    return bool(fault.causes) or cause in (*fault.may_warn, "unknown")


def _ends_with_launch(fault: TrueFault) -> bool:
    """Return True if a new launch of the job ends the fault."""
    return set(fault.causes) <= set(END_CAUSES)


def _counted_states(row: DrillRow) -> list[Shown]:
    """Return the published states that count for the result, as `score.counts` decides for findings."""
    return [state for state in row.shown if state.severity != "info" and state.cause != TRUE_OF_EVERY_JOB]


def _quiet_result(row: DrillRow, shown: Sequence[Shown]) -> Result:
    """Return the result of a play without a fault: of something harmless, or an end by the owner."""
    if row.paged or any(state.severity == "critical" for state in (*shown, *row.afterwards)):
        return "false page"
    if not row.moves and not any(fault.fault in ENDS_BY_OWNER for fault in row.truth):
        return "silent"  # it has died of something else, and no critical finding says so
    excused = {cause for fault in row.truth for cause in fault.may_warn}
    return "false warning" if any(state.cause not in excused for state in shown) else "quiet"


def _diagnosis_result(row: DrillRow, shown: Sequence[Shown]) -> Result:
    """Return the result by the last state of each finding; an earlier one may not have known the cause."""
    true_causes = {cause for fault in row.truth for cause in fault.causes}
    allowed_causes = true_causes | {cause for fault in row.truth for cause in fault.may_warn}
    if row.acts:  # the rank that zmon killed ends, and then its peers
        shown = [state for state in shown if state.cause in allowed_causes or state.cause not in END_CAUSES]
    if row.max_restarts:
        allowed_causes.add("crash_loop")  # the next launch has the same fault
    last = {state.id: state for state in shown}.values()
    if any(state.severity == "critical" and state.cause not in (*allowed_causes, "unknown") for state in last):
        return "wrong cause"
    without_culprit = {cause for fault in row.truth if fault.rank is None for cause in fault.causes}
    right = [state for state in last if state.cause in true_causes]
    if any(state.ranks or state.cause in without_culprit for state in right):
        return "late" if row.is_late else "right"
    return "unknown" if right or all(state.cause == "unknown" for state in last) else "wrong cause"
