"""Tests that play some drills with real jobs, several at a time on one stack. `make drills` plays all drills."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from lab.drills.draw import draw_job
from lab.drills.matrix import ALL
from lab.drills.play import play
from lab.drills.score import DrillRow
from lab.drills.session import open_stage, select_drills
from lab.stage.host import OneHost
from tests.e2e.running_stack import DETECTION_SECONDS, SETTLED_SECONDS, wait_for
from tests.jobs.conftest import ABORTED_AT_THE_END, TRIES
from tests.lab.drills.lifetimes import RecordingStage

pytestmark = [pytest.mark.drill, pytest.mark.timeout(400)]  # the first test waits for all drills
SEED = 1
PARALLEL = 4  # drills mostly sleep
STEP_SECONDS = 0.1  # long enough for a loaded machine to change it little
PLAYED = {  # drill → kind of job, ranks, struck rank; only drills that a test of this run needs are played
    "loader-hang": ("ddp", 2, 1),
    "lock-deadlock": ("plain", 2, 0),
    "gil-held": ("trainer", 2, 1),
    "loop-left": ("plain", 2, 1),
    "collective-skipped": ("ddp", 3, 2),
    "rank-oom": ("ddp", 2, 0),
    "finish": ("plain", 2, 0),
    "cancelled-int": ("plain", 2, 0),
}
SLOW = ("lock-deadlock", "gil-held", "loop-left", "collective-skipped")  # found by missing progress, as loader-hang is
QUIET = ("finish", "cancelled-int")
LIFTED = ("loader-hang", "lock-deadlock", "gil-held")


def each(*drill_names: str) -> pytest.MarkDecorator:
    """Parametrize a test over these drills."""
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in drill_names]
    )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingStage]:
    """The stage of one host, as `zmon drill` starts it."""
    with open_stage("host", tmp_path_factory.mktemp("drills")) as stage:
        assert isinstance(stage, OneHost)
        yield RecordingStage(stage)


@pytest.fixture(scope="module")
def drill_names(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The drills that tests of this run need."""
    items = (item for item in request.session.items if item.path == request.path)
    needed = {item.callspec.params.get("name") for item in items if hasattr(item, "callspec")}
    return tuple(name for name in PLAYED if name in needed)


@pytest.fixture(scope="module")
def rows(stage: RecordingStage, drill_names: tuple[str, ...]) -> Iterator[dict[str, DrillRow]]:
    """The row of each drill; it is played again if torch itself aborted a rank that had ended."""

    def play_by_name(name: str) -> DrillRow:
        kind, ranks, rank = PLAYED[name]
        drill = replace(select_drills(ALL, [name])[0], **({"job": {"steps": 80}} if name == "finish" else {}))
        draw = replace(draw_job(drill, 0, SEED), kind=kind, ranks=ranks, rank=rank, step_seconds=STEP_SECONDS)
        for _ in range(TRIES):
            row = play(drill, stage, draw)  # type: ignore[arg-type]
            log = stage.folder / "jobs" / row.job / "log"
            if row.broken is None or not log.exists() or ABORTED_AT_THE_END not in log.read_text():
                break  # any other outcome is final
            warnings.warn(f"{name}: torch aborted a rank at its very end", stacklevel=1)
        return row

    with ThreadPoolExecutor(PARALLEL) as pool:
        yield dict(zip(drill_names, pool.map(play_by_name, drill_names), strict=True))


@each(*(name for name in PLAYED if name not in QUIET))
def test_finding_names_culprit_and_cause_and_pages_once(rows: dict[str, DrillRow], name: str) -> None:
    row = rows[name]
    if row.skipped:
        pytest.skip(row.skipped)
    assert row.broken is None
    assert row.reported_cause in row.expected
    assert (row.reported_ranks, row.reported_hosts) == ((PLAYED[name][2],), (row.host,))
    assert row.paged == ("ZmonStall",)


@each(*QUIET)
def test_finished_or_cancelled_job_does_not_page(rows: dict[str, DrillRow], name: str) -> None:
    assert rows[name].result == "quiet", rows[name].remarks


@each(*LIFTED)
def test_finding_resolves_after_the_fault_is_lifted(rows: dict[str, DrillRow], name: str) -> None:
    assert rows[name].lifted
    assert rows[name].resolved_seconds is not None


@each(*(name for name in PLAYED if name not in LIFTED))
def test_permanent_fault_is_not_marked_as_lifted(rows: dict[str, DrillRow], name: str) -> None:
    assert not rows[name].lifted


@each(*PLAYED)
def test_time_categories_sum_to_the_wall_clock_of_the_job(
    rows: dict[str, DrillRow], stage: RecordingStage, name: str
) -> None:
    """The sum is checked against the lifetime that the stage measured.

    It may exceed the lifetime by 0.1 % and the time to detect the end. The lower bound holds if the job was still alive
    when it was ended.
    """
    job_id = rows[name].job
    if rows[name].skipped:
        pytest.skip(rows[name].skipped)
    lifetime = stage.lifetimes[job_id]
    time.sleep(max(0.0, lifetime.end_done + SETTLED_SECONDS - time.time()))
    view = wait_for(f"{job_id} is known", lambda: stage.job(job_id), 10)
    total = sum(view.time.values())
    least = lifetime.end_begun - lifetime.start
    most = lifetime.end_done - lifetime.start
    assert total <= 1.001 * most + DETECTION_SECONDS
    if lifetime.was_alive:
        assert total >= 0.999 * least
