"""Play random compositions of real jobs on one standing stack, in slices that resume."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from zmon.drills.compositions import compose_drill
from zmon.drills.faults.together import read_truth
from zmon.drills.play import play
from zmon.drills.score import DrillRow
from zmon.drills.session import check_installed, open_stage
from zmon.drills.stage import Stage


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
    todo = [each for each in range(number) if each not in done]
    if not todo:
        return
    with ExitStack() as stack:
        stage: Stage = stack.enter_context(open_stage("host", folder))
        for each in todo:
            composition = compose_drill(seed, each, truth)
            row = play(composition.drill, stage, composition.draw)
            on_row(
                replace(
                    row,
                    launcher=composition.launcher,
                    max_restarts=composition.max_restarts,
                    truth=read_truth(truth, row.job, row.time),
                )
            )
