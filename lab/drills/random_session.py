"""Play random compositions of real jobs, one after the other, on one running stack. A session can be resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from lab.drills.compositions import RealComposition, compose_drill
from lab.drills.play import play
from lab.drills.reports import acts_of
from lab.drills.score import DrillRow
from lab.drills.session import check_installed, open_stage
from lab.drills.truth import read_truth
from lab.stage import Stage

END_SECONDS = 10.0  # time for findings about the end of the last job


def play_random(
    seed: int,
    num_plays: int,
    done: Collection[int],
    folder: Path,
    truth: Path,
    on_row: Callable[[DrillRow], None],
    policy: Path | None = None,
) -> None:
    """Play those of the first `num_plays` compositions of a seed that are not done yet.

    A row is passed on after the next play. By then it has what zmon published about the end of its job. Raises
    PartFailed if the stage does not start.
    """
    check_installed()
    numbers = [number for number in range(num_plays) if number not in done]
    if not numbers:
        return
    with ExitStack() as stack:
        stage: Stage = stack.enter_context(open_stage("host", folder, policy))
        previous: DrillRow | None = None
        for number in numbers:
            row = _play_one(compose_drill(seed, number, truth), stage, truth)
            if previous is not None:  # the findings about the end of its job came meanwhile
                on_row(_with_end(previous, stage))
            previous = row
        if previous is not None:
            time.sleep(END_SECONDS)
            on_row(_with_end(previous, stage))


def _play_one(composition: RealComposition, stage: Stage, truth: Path) -> DrillRow:
    row = play(composition.drill, stage, composition.draw)
    struck = read_truth(truth, row.job, row.time)
    return replace(row, launcher=composition.launcher, max_restarts=composition.max_restarts, truth=struck)


def _with_end(row: DrillRow, stage: Stage) -> DrillRow:
    """Return the row with the findings and the acts that came after the drill had ended the job as its owner does."""
    afterwards = tuple(state for state in stage.published(row.job) if state not in row.shown)
    return replace(row, afterwards=afterwards, acts=acts_of(stage, row.job))
