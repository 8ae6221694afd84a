"""Tests of `zmon top` in a terminal of 80 × 24, driven by keys. Whole screens are in tests/golden/top."""

from dataclasses import replace

import pytest

from tests.build import NOW, finding
from tests.cli.top.scene import healthy, job, row, screen, stalled, top
from tests.places import REPOSITORY
from zmon.cli.top.panels import HubState

GOLDEN = REPOSITORY / "tests/golden/top"
REFUSED = "cannot reach http://hub:9781/api/v1/jobs: Connection refused"


def assert_golden(app, name):
    """Assert that the screen equals the checked-in one.

    To accept a change, delete the file and run the test twice.
    """
    path = GOLDEN / f"{name}.txt"
    shown = "\n".join(line.rstrip(" ▁▂▃▄▅▆▇█▏") for line in screen(app).splitlines()) + "\n"
    if not path.exists():
        path.write_text(shown)
        pytest.fail(f"{path} is new: review it and run the test again")
    assert shown == path.read_text()


@pytest.mark.parametrize("state", [healthy, stalled])
async def test_screen_equals_golden_and_is_not_grey(state):
    async with top(state()) as (app, _, _):
        assert_golden(app, state.__name__)
        assert not app.has_class("old")


async def test_unreachable_hub_screen_equals_golden_and_is_grey():
    async with top(stalled()) as (app, pilot, hub):
        hub.error = REFUSED
        await hub.settle(pilot)
        hub.now += 42
        await hub.settle(pilot)
        assert_golden(app, "hub_gone")
        assert app.has_class("old")


async def test_hub_that_answers_again_is_not_shown_as_unreachable():
    async with top(healthy()) as (app, pilot, hub):
        hub.error = REFUSED
        await hub.settle(pilot)
        assert screen(app).startswith("BLIND")
        hub.error = None
        await hub.settle(pilot)
        assert "BLIND" not in screen(app)
        assert not app.has_class("old")


async def test_screen_without_jobs_shows_command_that_starts_job():
    async with top(HubState(time=NOW, blind=False, jobs=(), findings=())) as (app, pilot, _):
        assert "0 jobs, no findings" in screen(app)
        assert "zmon demo" in screen(app)
        await pilot.press("down", "enter", "up")
        assert app.is_running


async def test_blind_hub_shows_blind_in_grey():
    async with top(replace(healthy(), blind=True)) as (app, _, _):
        assert screen(app).startswith("BLIND")
        assert app.has_class("old")


async def test_long_names_leave_room_for_numbers():
    long = "x" * 30 + "middle" + "y" * 28
    ranks = tuple(row(rank, host="h" * 63) for rank in range(4))
    affected = finding(job_id=long, summary="s" * 300, hosts=("h" * 63,))
    state = HubState(
        time=NOW, blind=False, jobs=(job(long, findings=("f1",)),), findings=(affected,), ranks_job_id=long, ranks=ranks
    )
    async with top(state) as (app, _, _):
        lines = screen(app).splitlines()
        assert all(len(line) <= 80 for line in lines)
        (line,) = (line for line in lines if line.startswith(">!"))
        assert "18,618" in line
        assert long in "".join(line.strip() for line in lines)  # in full above the ranks
        assert any(line.split()[:4] == ["!", "2", "hhhhhhhhhh…hhhhhhhhh", "train"] for line in lines)


def state_with_jobs(count):
    """Return a state with this many healthy jobs."""
    return HubState(time=NOW, blind=False, jobs=tuple(job(f"job-{n:02}") for n in range(count)), findings=())


async def test_keys_select_among_64_jobs_and_the_selected_row_stays_visible():
    async with top(state_with_jobs(64)) as (app, pilot, hub):
        await pilot.press("end", "up", "down", "down")  # the last job stays selected
        await hub.settle(pilot)
        assert "> job-63" in screen(app)
        assert hub.requests[-1] == "job-63"
        await pilot.press("pageup")
        await hub.settle(pilot)
        assert "> job-53" in screen(app)
        await pilot.press("home", "up")
        await hub.settle(pilot)
        assert "> job-00" in screen(app)


async def test_first_job_is_selected_when_selected_job_vanishes():
    async with top(state_with_jobs(3)) as (_, pilot, hub):
        await pilot.press("down")
        await hub.settle(pilot)
        assert hub.requests[-1] == "job-01"
        hub.state = replace(hub.state, jobs=hub.state.jobs[:1])
        await hub.settle(pilot)
        await hub.settle(pilot)
        assert hub.requests[-1] == "job-00"


async def test_enter_toggles_between_selected_job_and_all_jobs():
    other = finding(id="f2", job_id="other", summary="something else")
    state = stalled()
    two_jobs = replace(state, jobs=(*state.jobs, job("other")), findings=(*state.findings, other))
    async with top(two_jobs, height=40) as (app, pilot, hub):  # both findings fit
        assert "something else" in screen(app)
        await pilot.press("enter")
        await hub.settle(pilot)
        assert "something else" not in screen(app)
        assert "samples/s" not in screen(app)
        await pilot.press("enter")
        await hub.settle(pilot)
        assert "samples/s" in screen(app)


async def test_question_mark_toggles_the_help_screen():
    async with top(healthy()) as (app, pilot, hub):
        await pilot.press("question_mark")
        await hub.settle(pilot)
        assert "It does not mean zero" in screen(app)
        await pilot.press("question_mark")
        await hub.settle(pilot)
        assert "It does not mean zero" not in screen(app)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_key_quits_top(key):
    async with top(healthy()) as (app, pilot, _):
        await pilot.press(key)
        await pilot.pause()
        assert not app.is_running


@pytest.mark.parametrize("size", [(20, 6), (200, 60), (80, 10)])
async def test_resized_terminal_is_drawn_again(size):
    async with top(stalled()) as (app, pilot, hub):
        await pilot.resize_terminal(*size)
        await hub.settle(pilot)
        lines = screen(app).splitlines()
        assert (len(lines), max(map(len, lines)) <= size[0]) == (size[1], True)
        assert "1 critical" in " ".join(lines[:3])


async def test_end_key_scrolls_to_last_of_1024_ranks():
    ranks = tuple(map(row, range(1024)))
    async with top(replace(healthy(), ranks=ranks)) as (app, pilot, hub):
        await pilot.press("enter", "end")
        await hub.settle(pilot)
        assert "  1023  node-a" in screen(app)
