"""A few drills for real, several at a time on one stack: the rest is `make drills`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.drills.lives import Watched
from tests.e2e.standing import SEEN_SECONDS, SETTLED_SECONDS, wait_for
from tests.jobs.conftest import ABORTED_AT_THE_END, TRIES
from zmon.drills import ALL
from zmon.drills.casting import cast
from zmon.drills.host import OneHost
from zmon.drills.play import play
from zmon.drills.score import DrillRow
from zmon.drills.session import named, standing

pytestmark = [pytest.mark.drill, pytest.mark.timeout(400)]  # the first of them waits for all
SEED = 1
AT_ONCE = 4  # they mostly sleep
STEP_SECONDS = 0.1  # long enough that a loaded machine changes it little
PLAYED = {  # drill → kind of job, ranks, whom it strikes; only those are played that a test of this run asks for
    "loader-hang": ("ddp", 2, 1),
    "lock-deadlock": ("plain", 2, 0),
    "gil-held": ("trainer", 2, 1),
    "loop-left": ("plain", 2, 1),
    "collective-skipped": ("ddp", 3, 2),
    "rank-oom": ("ddp", 2, 0),
    "finish": ("plain", 2, 0),
}
SLOW = ("gil-held", "loop-left", "collective-skipped")  # silence proves each of them, as it does lock-deadlock
LIFTED = ("loader-hang", "lock-deadlock", "gil-held")


def each(*names: str) -> pytest.MarkDecorator:
    """A test for each of these drills."""
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in names]
    )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """One host, as `zmon drill` makes it."""
    with standing("host", tmp_path_factory.mktemp("drills")) as stage:
        assert isinstance(stage, OneHost)
        yield Watched(stage)


@pytest.fixture(scope="module")
def names(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The drills that tests of this run ask for."""
    here = (item for item in request.session.items if item.path == request.path)
    asked = {item.callspec.params.get("name") for item in here if hasattr(item, "callspec")}
    return tuple(name for name in PLAYED if name in asked)


@pytest.fixture(scope="module")
def rows(stage: Watched, names: tuple[str, ...]) -> Iterator[dict[str, DrillRow]]:
    """Each drill, played; and again where torch itself aborted a rank that had ended, as of other jobs here."""

    def played(name: str) -> DrillRow:
        kind, ranks, rank = PLAYED[name]
        drill = replace(named(ALL, [name])[0], **({"job": {"steps": 80}} if name == "finish" else {}))
        part = replace(cast(drill, 0, SEED), kind=kind, ranks=ranks, rank=rank, step_seconds=STEP_SECONDS)
        for _ in range(TRIES):
            row = play(drill, stage, part)  # type: ignore[arg-type]
            log = stage.folder / "jobs" / row.job / "log"
            if row.broken is None or not log.exists() or ABORTED_AT_THE_END not in log.read_text():
                break  # it is judged as it is, whatever zmon said
            warnings.warn(f"{name}: torch aborted a rank at its very end", stacklevel=1)
        return row

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield dict(zip(names, pool.map(played, names), strict=True))


@each(*(name for name in PLAYED if name != "finish"))
def test_the_right_rank_is_blamed_for_the_right_cause_and_one_page_is_sent(
    rows: dict[str, DrillRow], name: str
) -> None:
    row = rows[name]
    if row.skipped:
        pytest.skip(row.skipped)
    print(f"{name}: {row.finding_seconds} s, page {row.page_seconds} s")
    assert row.broken is None
    assert row.told in row.expected
    assert (row.told_ranks, row.told_hosts) == ((PLAYED[name][2],), (row.host,))
    assert row.paged == ("ZmonStall",)


@each("finish")
def test_nobody_is_woken_when_the_job_finishes(rows: dict[str, DrillRow], name: str) -> None:
    assert rows[name].verdict == "quiet", rows[name].remarks


@each(*LIFTED)
def test_what_was_held_and_is_let_go_resolves(rows: dict[str, DrillRow], name: str) -> None:
    assert rows[name].lifted
    assert rows[name].resolved_seconds is not None


@each(*(name for name in PLAYED if name not in LIFTED))
def test_what_cannot_be_let_go_is_not_said_to_be_lifted(rows: dict[str, DrillRow], name: str) -> None:
    assert not rows[name].lifted


@each(*PLAYED)
def test_causes_of_every_job_sum_to_its_wall_clock(rows: dict[str, DrillRow], stage: Watched, name: str) -> None:
    """Whatever struck it: what each second went to is told once."""
    job_id = rows[name].job
    if rows[name].skipped:
        pytest.skip(rows[name].skipped)
    life = stage.lives[job_id]
    time.sleep(max(0.0, life.after + SETTLED_SECONDS - time.time()))
    view = wait_for(f"{job_id} is known", lambda: stage.job(job_id), 10)
    told = sum(view.time.values())
    print(f"{job_id}: {told:.3f} s of {life.before - life.began:.3f} to {life.after - life.began:.3f} s")
    assert told <= 1.001 * (life.after - life.began) + SEEN_SECONDS
    if life.alive:
        assert told >= 0.999 * (life.before - life.began)
