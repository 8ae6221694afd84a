"""Tests of `zmon top` in a terminal of 80 × 24, driven by keys. Whole screens are in tests/golden/top."""

import asyncio
from dataclasses import replace

import pytest

from tests.build import NOW, finding
from tests.cli.top.scene import Hub, healthy, job, row, screen, stalled
from tests.places import REPOSITORY
from zmon.cli.top.panels import HubState

GOLDEN = REPOSITORY / "tests/golden/top"
REFUSED = "cannot reach http://hub:9781/api/v1/jobs: Connection refused"


@pytest.fixture
def run_scenario():
    """Return a function that runs a scenario, a coroutine function of app, pilot and hub, against a fake hub."""

    def run(state, scenario, width=80, height=24):
        async def main():
            hub = Hub(state)
            async with hub.top(width, height) as (app, pilot):
                await scenario(app, pilot, hub)

        asyncio.run(asyncio.wait_for(main(), 30))

    return run


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
def test_screen_equals_golden_and_is_not_grey(run_scenario, state):
    async def scenario(app, pilot, hub):
        assert_golden(app, state.__name__)
        assert not app.has_class("old")

    run_scenario(state(), scenario)


def test_unreachable_hub_screen_equals_golden_and_is_grey(run_scenario):
    async def scenario(app, pilot, hub):
        hub.error = REFUSED
        await hub.settle(pilot)
        hub.now += 42
        await hub.settle(pilot)
        assert_golden(app, "hub_gone")
        assert app.has_class("old")

    run_scenario(stalled(), scenario)


def test_hub_that_answers_again_is_not_shown_as_unreachable(run_scenario):
    async def scenario(app, pilot, hub):
        hub.error = REFUSED
        await hub.settle(pilot)
        assert screen(app).startswith("BLIND")
        hub.error = None
        await hub.settle(pilot)
        assert "BLIND" not in screen(app)
        assert not app.has_class("old")

    run_scenario(healthy(), scenario)


def test_screen_without_jobs_shows_command_that_starts_job(run_scenario):
    async def scenario(app, pilot, hub):
        assert "0 jobs, no findings" in screen(app)
        assert "zmon demo" in screen(app)
        await pilot.press("down", "enter", "up")
        assert app.is_running

    run_scenario(HubState(NOW, False, (), ()), scenario)


def test_hub_unreachable_from_start_shows_that_there_is_no_data(run_scenario):
    async def scenario(app, pilot, hub):
        hub.error = REFUSED
        app._hub_state = None
        await hub.settle(pilot)
        assert "There is no data yet" in screen(app)

    run_scenario(healthy(), scenario)


def test_blind_hub_shows_blind_in_grey(run_scenario):
    async def scenario(app, pilot, hub):
        assert screen(app).startswith("BLIND")
        assert app.has_class("old")

    run_scenario(replace(healthy(), blind=True), scenario)


def test_long_names_leave_room_for_numbers(run_scenario):
    long = "x" * 30 + "middle" + "y" * 28
    ranks = tuple(row(rank, host="h" * 63) for rank in range(4))
    affected = finding(job_id=long, summary="s" * 300, hosts=("h" * 63,))

    async def scenario(app, pilot, hub):
        lines = screen(app).splitlines()
        assert all(len(line) <= 80 for line in lines)
        (line,) = (line for line in lines if line.startswith(">!"))
        assert "18,618" in line
        assert long in "".join(line.strip() for line in lines)  # in full above the ranks
        assert any(line.split()[:4] == ["!", "2", "hhhhhhhhhh…hhhhhhhhh", "train"] for line in lines)

    run_scenario(HubState(NOW, False, (job(long, findings=("f1",)),), (affected,), long, ranks), scenario)


def state_with_jobs(number):
    return HubState(NOW, False, tuple(job(f"job-{n:02}") for n in range(number)), ())


def test_keys_select_among_64_jobs_and_the_selected_row_stays_visible(run_scenario):
    async def scenario(app, pilot, hub):
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

    run_scenario(state_with_jobs(64), scenario)


def test_first_job_is_selected_when_selected_job_vanishes(run_scenario):
    async def scenario(app, pilot, hub):
        await pilot.press("down")
        await hub.settle(pilot)
        assert hub.requests[-1] == "job-01"
        hub.state = replace(hub.state, jobs=hub.state.jobs[:1])
        await hub.settle(pilot)
        await hub.settle(pilot)
        assert hub.requests[-1] == "job-00"

    run_scenario(state_with_jobs(3), scenario)


def test_enter_toggles_between_selected_job_and_all_jobs(run_scenario):
    other = finding(id="f2", job_id="other", summary="something else")

    async def scenario(app, pilot, hub):
        assert "something else" in screen(app)
        await pilot.press("enter")
        await hub.settle(pilot)
        assert "something else" not in screen(app)
        assert "samples/s" not in screen(app)
        await pilot.press("enter")
        await hub.settle(pilot)
        assert "samples/s" in screen(app)

    state = stalled()
    of_two_jobs = replace(state, jobs=(*state.jobs, job("other")), findings=(*state.findings, other))
    run_scenario(of_two_jobs, scenario, height=40)  # both findings fit


def test_question_mark_toggles_the_help_screen(run_scenario):
    async def scenario(app, pilot, hub):
        await pilot.press("question_mark")
        await hub.settle(pilot)
        assert "It does not mean zero" in screen(app)
        await pilot.press("question_mark")
        await hub.settle(pilot)
        assert "It does not mean zero" not in screen(app)

    run_scenario(healthy(), scenario)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_key_quits_top(run_scenario, key):
    async def scenario(app, pilot, hub):
        await pilot.press(key)
        await pilot.pause()
        assert not app.is_running

    run_scenario(healthy(), scenario)


@pytest.mark.parametrize("size", [(20, 6), (200, 60), (80, 10)])
def test_resized_terminal_is_drawn_again(run_scenario, size):
    async def scenario(app, pilot, hub):
        await pilot.resize_terminal(*size)
        await hub.settle(pilot)
        lines = screen(app).splitlines()
        assert (len(lines), max(map(len, lines)) <= size[0]) == (size[1], True)
        assert "1 critical" in " ".join(lines[:3])

    run_scenario(stalled(), scenario)


def test_end_key_scrolls_to_last_of_1024_ranks(run_scenario):
    ranks = tuple(map(row, range(1024)))

    async def scenario(app, pilot, hub):
        await pilot.press("enter", "end")
        await hub.settle(pilot)
        assert "  1023  node-a" in screen(app)

    run_scenario(replace(healthy(), ranks=ranks), scenario)
