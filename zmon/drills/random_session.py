"""Play random compositions of real jobs on one standing stack, in slices that resume."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from zmon.drills.compositions import compose_drill
from zmon.drills.play import play
from zmon.drills.score import DrillRow
from zmon.drills.session import check_installed, open_stage
from zmon.drills.stage import Stage
from zmon.drills.tally import Outcome

# What proves a fault, by the proof of its drill: a process that ended or is stopped, or the order of collectives.
EVIDENCE = {"state": "state", "silence": "sequence", "steps": "steps"}


def play_random(
    seed: int,
    number: int,
    done: Collection[int],
    folder: Path,
    truth: Path,
    on_row: Callable[[DrillRow], None],
) -> None:
    """Play the first `number` compositions of a seed that are not done yet. Raises PartFailed if no stage starts."""
    check_installed()
    numbers = [each for each in range(number) if each not in done]
    if not numbers:
        return
    with ExitStack() as stack:
        stage: Stage = stack.enter_context(open_stage("host", folder))
        for each in numbers:
            composition = compose_drill(seed, each, truth)
            row = play(composition.drill, stage, composition.draw)
            on_row(replace(row, launcher=composition.launcher, max_restarts=composition.max_restarts))


def outcome(row: DrillRow) -> Outcome:
    """Return what the tally counts of one play of a real job."""
    fault, evidence = row.drill.partition("+")[0], "none" if row.quiet else EVIDENCE.get(row.proof, "none")
    return Outcome(fault, evidence, _verdict(row), None if row.quiet else row.confidence, row.skipped)


def _verdict(row: DrillRow) -> str:
    match row.verdict:
        case "late":
            return "right"
        case "false warning":
            return "quiet"
        case "missed":
            if row.max_restarts:
                return "restarted"
            return "missed" if row.proof == "steps" else "silent"
        case "wrong":
            return _wrong(row)
    return row.verdict


def _wrong(row: DrillRow) -> str:
    """Return whether a finding that is not right names an innocent, another cause, or nobody."""
    if set(row.reported_ranks) - {row.rank, *row.struck_too}:
        return "wrong name"
    return "unknown" if row.reported_cause == "unknown" or not row.reported_ranks else "wrong cause"
