"""Judge a run: compare what zmon measured with what the job and torch counted, for each column of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tests.frameworks.running import FROZEN_RANK, NUM_RANKS, Run, WatchedRank
from tests.frameworks.table import Row
from zmon.job.flight import FlightDump, op_of, pending_collective
from zmon.schema.names import SAME_SIZE_OPS

_POINT_TO_POINT = ("send", "recv")
# gloo implements reduce_scatter by an all_reduce, and the flight recorder has that.
RECORDED_AS = {"reduce_scatter": "all_reduce"}
# Ops whose bytes are compared. The bytes of the other ops depend on the rank that has the data.
SIZED_OPS = (*SAME_SIZE_OPS, "all_to_all")


def judge(row: Row, run: Run) -> dict[str, str]:
    """Return the errors of a whole run by column, or "" for a right column. Columns that the row lacks are left out."""
    return {column: error_in(row, run) for column, error_in in JUDGES.items() if column not in row.lacks}


def judge_freeze(run: Run) -> str:
    """Return the error in the finding about the frozen rank or in the end of the job after it, or ""."""
    if not run.stopped:
        return "no rank was stopped"
    findings = [finding for job in run.card["jobs"] for finding in job["findings"]]
    stalls = [finding for finding in findings if finding["detector"] == "stall"]
    right = [stall for stall in stalls if stall["cause"] == "rank_frozen" and stall["ranks"] == [FROZEN_RANK]]
    if not right:
        return f"the finding is {_text_of(stalls) or 'none'}"
    wrong = [stall for stall in stalls if stall not in right]
    return f"also {_text_of(wrong)}" if wrong else _error_of_end(run)


def _text_of(findings: list[dict]) -> str:
    """Return the causes and ranks of findings as text."""
    return ", ".join(f"{finding['cause']} of ranks {finding['ranks']}" for finding in findings)


def _ranks(row: Row, run: Run) -> str:
    measured = sorted((rank.identity.rank, rank.identity.world_size, rank.identity.pid) for rank in run.watched)
    expected = sorted((rank, NUM_RANKS, count["pid"]) for rank, count in run.counted.items())
    if measured != expected:
        return f"(rank, world size, process): zmon has {measured}, the job has {expected}"
    jobs = sorted({rank.identity.job_id for rank in run.watched})
    return "" if len(jobs) == 1 else f"the ranks are in {len(jobs)} jobs: {', '.join(jobs)}"


def _steps(row: Row, run: Run) -> str:
    return _differences(run, lambda rank: rank.totals.steps, lambda count: count["steps"])


def _phases(row: Row, run: Run) -> str:
    for rank in run.watched:
        phases = {phase for phase, seconds in rank.totals.measures.phases.items() if seconds} - {"other"}
        if phases != set(row.phases):
            missing = sorted(set(row.phases) - phases)
            unexpected = sorted(phases - set(row.phases))
            return f"rank {rank.identity.rank}: missing phases {missing}, unexpected phases {unexpected}"
    return ""


def _collectives(row: Row, run: Run) -> str:
    for rank in run.watched:
        number = rank.identity.rank
        sends_and_receives = {op: (times, None) for op, times in run.counted[number]["single"].items()}
        expected = sends_and_receives | _recorded_ops(run.flights[number])
        totals = rank.totals.measures.ops.items()
        measured = _sums((op, total.count, total.sent_bytes) for op, total in totals if total.count)
        wrong = [
            f"{op}: measured {_count_text(measured.get(op))}, recorded {_count_text(expected.get(op))}"
            for op in sorted({*measured, *expected})
            if measured.get(op) != expected.get(op)
        ]
        if wrong:
            return f"rank {number}: {'; '.join(wrong)}"
    return ""


def _recorded_ops(dump: FlightDump) -> dict[str, tuple[int, int | None]]:
    """Return count and bytes of the collectives in a flight record, by op."""
    ops = ((op_of(entry.profiling_name), 1, pending_collective(entry, None).num_bytes or 0) for entry in dump.entries)
    return _sums(total for total in ops if total[0] not in _POINT_TO_POINT)


def _sums(totals: Iterable[tuple[str, int, int]]) -> dict[str, tuple[int, int | None]]:
    """Return the sums of count and bytes by the op's name in the flight record. None: the bytes are not compared."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for op, count, size in totals:
        name = RECORDED_AS.get(op, op)
        counts[name] += count
        sizes[name] += size
    return {op: (count, sizes[op] if op in SIZED_OPS else None) for op, count in counts.items()}


def _count_text(total: tuple[int, int | None] | None) -> str:
    """Return a count of collectives and their bytes as text."""
    count, size = total or (0, None)
    return f"{count:,}" if size is None else f"{count:,} ({size:,} bytes)"


def _evaluation(row: Row, run: Run) -> str:
    return _differences(run, lambda rank: rank.stays["eval"], lambda count: count["evaluations"])


def _checkpoint(row: Row, run: Run) -> str:
    return _differences(run, lambda rank: rank.stays["checkpoint"], lambda count: count["checkpoints"])


def _differences(run: Run, measured: Callable[[WatchedRank], int], counted: Callable[[dict], int | None]) -> str:
    """Return the ranks for which zmon and the job have different numbers. A job may not know the number of a rank."""
    wrong = [
        f"rank {rank.identity.rank}: zmon measured {measured(rank)}, the job counted {number}"
        for rank in run.watched
        if (number := counted(run.counted[rank.identity.rank])) is not None and measured(rank) != number
    ]
    return "; ".join(wrong)


def _clean_end(row: Row, run: Run) -> str:
    findings = [finding for job in run.card["jobs"] for finding in job["findings"]]
    faults = [finding for finding in findings if finding["detector"] == "stall" or finding["severity"] == "critical"]
    return _error_of_end(run) or (f"it found {_text_of(faults)}" if faults else "")


def _error_of_end(run: Run) -> str:
    """Return how the run ended if it ended badly, or ""."""
    activities = {rank.identity.rank: rank.activity for rank in run.watched if rank.activity != "done"}
    if run.exit_code or activities:
        return f"{run.card['ending']}; the last activity of ranks is {activities or 'done'}"
    return ""


def _declared(row: Row, run: Run) -> str:
    for rank in run.watched:
        expected = run.counted[rank.identity.rank]["declared"]
        measures = rank.totals.measures
        measured = {"samples": measures.samples, "flops": measures.flops, "report": sorted(rank.report)}
        if measured != expected:
            return f"rank {rank.identity.rank}: zmon has {measured}, the job declared {expected}"
    return ""


# Column → function that returns the error in it, or "". The column "freeze" has a run of its own: `judge_freeze`.
JUDGES: dict[str, Callable[[Row, Run], str]] = {
    "ranks": _ranks,
    "steps": _steps,
    "phases": _phases,
    "collectives": _collectives,
    "evaluation": _evaluation,
    "checkpoint": _checkpoint,
    "clean end": _clean_end,
    "declared": _declared,
}
