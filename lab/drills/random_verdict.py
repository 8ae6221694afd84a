"""Judge a random play of a real job: every state of every finding that was published, against the truth. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lab.drills.acts import CLOCK_SECONDS
from lab.drills.score import TRUE_OF_EVERY_JOB, WRONG_ACT, DrillRow, TrueFault
from lab.drills.tally import Outcome
from lab.stage import Shown
from zmon.schema.names import STALL

# What proves a fault, by the proof of its drill: a process that ended or is stopped, or the order of collectives.
EVIDENCE = {"state": "state", "silence": "sequence", "steps": "steps"}
ENDS = ("rank_exited", "uneven_end", "connection_lost")  # a launcher with restarts left mends these
MAY_PASS = ("skip", "swallow")  # a collective that is left out may pair with the next one
EXPECTED = ("right", "late", "quiet", "restarted")
ENDED_BY_OWNER = ("cancel-term", "cancel-int")


def outcome(row: DrillRow) -> Outcome:
    """Return the outcome of one play of a real job, which the tally counts."""
    fault = row.drill.partition("+")[0]
    evidence = "none" if row.quiet else EVIDENCE.get(row.proof, "none")
    diagnosis = next((shown for shown in _counted_states(row) if shown.ranks), None)
    confidence = diagnosis.confidence if diagnosis and not row.quiet else None
    return Outcome(fault, evidence, result_of(row), confidence, row.skipped)


def deviation(row: DrillRow) -> str | None:
    """Return a line about a play whose result is neither right nor quiet, with the reason for a broken one."""
    word = result_of(row)
    if word in EXPECTED:
        return None
    shown = (*_counted_states(row), *row.afterwards)
    reported = ", ".join(dict.fromkeys(f"{state.cause} {list(state.ranks)}" for state in shown)) or "nothing"
    struck = ", ".join(f"{fault.fault} {'nobody' if fault.rank is None else fault.rank}" for fault in row.truth)
    reason = row.skipped or row.broken or "; ".join(row.wrong_acts) or f"reported {reported}; struck {struck}"
    job = f"{row.kind}, {row.ranks} × {row.step_seconds:g} s, {row.launcher}, {row.max_restarts} restarts"
    return f"{row.seed}:{row.repeat} {row.drill} [{job}] {word}: {reason}"


def result_of(row: DrillRow) -> str:
    """Return the result of a play; see docs/drills.md for the words."""
    if row.skipped or row.broken:
        return row.result
    if row.wrong_acts:
        return WRONG_ACT
    shown = _counted_states(row)
    quiet = all(not fault.causes for fault in row.truth)
    if names_innocent(row.truth, (*row.shown, *row.afterwards)):
        return "wrong name"
    if quiet:
        return _quiet_result(row, shown)
    critical = [state for state in shown if state.severity == "critical"]
    if row.restarted and row.moves and critical and all(_is_mended(fault) for fault in row.truth):
        return "false page"  # the launcher had mended it
    if not row.moves and not row.restarted:
        if not any(state.detector == STALL for state in shown):
            return "silent"
        if not critical or not row.paged:
            return "unpaged"
    if not shown:
        passes = all(fault.fault in MAY_PASS for fault in row.truth if fault.causes)
        return "restarted" if row.restarted else "no effect" if passes else "missed"
    return _diagnosis_result(row, shown)


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


def _is_mended(fault: TrueFault) -> bool:
    """Return True if a new launch of the job ends the fault."""
    return not fault.causes or set(fault.causes) <= set(ENDS)


def _counted_states(row: DrillRow) -> list[Shown]:
    return [state for state in row.shown if state.severity != "info" and state.cause != TRUE_OF_EVERY_JOB]


def _quiet_result(row: DrillRow, shown: Sequence[Shown]) -> str:
    if row.paged or any(state.severity == "critical" for state in (*shown, *row.afterwards)):
        return "false page"
    if not row.moves and not any(fault.fault in ENDED_BY_OWNER for fault in row.truth):
        return "silent"  # it has died of something else, as a critical finding would have said
    excused = {cause for fault in row.truth for cause in fault.may_warn}
    return "false warning" if any(state.cause not in excused for state in shown) else "quiet"


def _diagnosis_result(row: DrillRow, shown: Sequence[Shown]) -> str:
    """Return the result by the last state of each finding; an earlier one may not have known the cause."""
    causes = {cause for fault in row.truth for cause in (*fault.causes, *fault.may_warn)}
    if row.acts:  # the rank that was killed, and those that it leaves, end
        shown = [state for state in shown if state.cause in causes or state.cause not in ENDS]
    last = {state.id: state for state in shown}.values()
    if row.max_restarts:
        causes.add("crash_loop")  # a fault that the next launch has, too
    nobody = {cause for fault in row.truth if fault.rank is None for cause in fault.causes}
    if any(state.severity == "critical" and state.cause not in (*causes, "unknown") for state in last):
        return "wrong cause"
    true = {cause for fault in row.truth for cause in fault.causes}
    right = [state for state in last if state.cause in true]
    if any(state.ranks or state.cause in nobody for state in right):
        return "late" if row.is_late else "right"
    return "unknown" if right or all(state.cause == "unknown" for state in last) else "wrong cause"
