"""`zmon top` in a terminal of 80 × 24, driven by keys. The whole screens lie in tests/golden/top."""

import asyncio
from dataclasses import replace

import pytest

from tests.build import NOW, finding
from tests.cli.top.scene import Hub, healthy, job, row, screen, stalled
from tests.places import REPOSITORY
from zmon.cli.top.picture import Picture

GOLDEN = REPOSITORY / "tests/golden/top"
REFUSED = "cannot reach http://hub:9781/api/v1/jobs: Connection refused"


@pytest.fixture
def play():
    """Run a coroutine function of app, pilot and hub against a hub that says this."""

    def play_(picture, scenario, width=80, height=24):
        async def main():
            hub = Hub(picture)
            async with hub.top(width, height) as (app, pilot):
                await scenario(app, pilot, hub)

        asyncio.run(asyncio.wait_for(main(), 30))

    return play_


def assert_golden(app, name):
    """The screen is the checked-in one. Where the change is meant: delete the file and run the test twice."""
    path = GOLDEN / f"{name}.txt"
    shown = "\n".join(line.rstrip(" ▁▂▃▄▅▆▇█▏") for line in screen(app).splitlines()) + "\n"
    if not path.exists():
        path.write_text(shown)
        pytest.fail(f"{path} is new: look at it, and run the test again")
    assert shown == path.read_text()


def test_healthy_job(play):
    async def scenario(app, pilot, hub):
        assert_golden(app, "healthy")
        assert not app.has_class("old")

    play(healthy(), scenario)


def test_stalled_job_shows_the_verdict_the_culprit_and_what_to_run(play):
    async def scenario(app, pilot, hub):
        assert_golden(app, "stalled")

    play(stalled(), scenario)


def test_hub_that_goes_leaves_its_last_picture_grey_with_its_age(play):
    async def scenario(app, pilot, hub):
        hub.gone = REFUSED
        await hub.settle(pilot)
        hub.now += 42
        await hub.settle(pilot)
        assert_golden(app, "hub_gone")
        assert app.has_class("old")

    play(stalled(), scenario)


def test_hub_that_comes_back_is_believed_again(play):
    async def scenario(app, pilot, hub):
        hub.gone = REFUSED
        await hub.settle(pilot)
        assert "HUB SILENT" in screen(app)
        hub.gone = None
        await hub.settle(pilot)
        assert "HUB SILENT" not in screen(app)
        assert not app.has_class("old")

    play(healthy(), scenario)


def test_no_job_says_how_to_start_one(play):
    async def scenario(app, pilot, hub):
        assert "0 jobs, no findings" in screen(app)
        assert "zmon demo" in screen(app)
        await pilot.press("down", "enter", "up")
        assert app.is_running

    play(Picture(NOW, False, (), ()), scenario)


def test_hub_that_is_not_there_from_the_start_is_said(play):
    async def scenario(app, pilot, hub):
        hub.gone = REFUSED
        app._picture = None
        await hub.settle(pilot)
        assert "Nothing is known yet" in screen(app)

    play(healthy(), scenario)


def test_blind_hub_is_grey(play):
    async def scenario(app, pilot, hub):
        assert screen(app).startswith("BLIND")
        assert app.has_class("old")

    play(replace(healthy(), blind=True), scenario)


def test_very_long_names_leave_room_for_the_numbers(play):
    long = "x" * 30 + "middle" + "y" * 28
    ranks = tuple(row(rank, host="h" * 63) for rank in range(4))
    sick = finding(job_id=long, summary="s" * 300, hosts=("h" * 63,))

    async def scenario(app, pilot, hub):
        lines = screen(app).splitlines()
        assert all(len(line) <= 80 for line in lines)
        (line,) = (line for line in lines if line.startswith(">!"))
        assert "18,618" in line
        assert long in "".join(line.strip() for line in lines)  # whole, over the ranks
        assert any(line.split()[:4] == ["!", "2", "hhhhhhhhhh…hhhhhhhhh", "train"] for line in lines)

    play(Picture(NOW, False, (job(long, findings=("f1",)),), (sick,), long, ranks), scenario)


def jobs(number):
    return Picture(NOW, False, tuple(job(f"job-{at:02}") for at in range(number)), ())


def test_arrows_choose_among_64_jobs_and_the_chosen_one_stays_in_sight(play):
    async def scenario(app, pilot, hub):
        await pilot.press("end", "up", "down", "down")  # there is none further down
        await hub.settle(pilot)
        assert "> job-63" in screen(app)
        assert hub.asked[-1] == "job-63"
        await pilot.press("pageup")
        await hub.settle(pilot)
        assert "> job-53" in screen(app)
        await pilot.press("home", "up")
        await hub.settle(pilot)
        assert "> job-00" in screen(app)

    play(jobs(64), scenario)


def test_chosen_job_that_vanishes_gives_way_to_the_first(play):
    async def scenario(app, pilot, hub):
        await pilot.press("down")
        await hub.settle(pilot)
        assert hub.asked[-1] == "job-01"
        hub.picture = replace(hub.picture, jobs=hub.picture.jobs[:1])
        await hub.settle(pilot)
        await hub.settle(pilot)
        assert hub.asked[-1] == "job-00"

    play(jobs(3), scenario)


def test_enter_shows_one_job_alone_and_leads_back(play):
    other = finding(id="f2", job_id="other", summary="something else")

    async def scenario(app, pilot, hub):
        assert "something else" in screen(app) or app._findings.virtual_size.height > 8
        await pilot.press("enter")
        await hub.settle(pilot)
        assert "something else" not in screen(app)
        assert "samples/s" not in screen(app)
        await pilot.press("enter")
        await hub.settle(pilot)
        assert "samples/s" in screen(app)

    picture = stalled()
    play(replace(picture, jobs=(*picture.jobs, job("other")), findings=(*picture.findings, other)), scenario)


def test_question_mark_tells_the_words_while_the_rest_goes_on(play):
    async def scenario(app, pilot, hub):
        await pilot.press("question_mark")
        await hub.settle(pilot)
        assert "unknown is not zero" in screen(app)
        await pilot.press("question_mark")
        await hub.settle(pilot)
        assert "unknown is not zero" not in screen(app)

    play(healthy(), scenario)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_key_that_quits(play, key):
    async def scenario(app, pilot, hub):
        await pilot.press(key)
        await pilot.pause()
        assert not app.is_running

    play(healthy(), scenario)


@pytest.mark.parametrize("size", [(20, 6), (200, 60), (80, 10)])
def test_terminal_that_is_resized_is_drawn_anew(play, size):
    async def scenario(app, pilot, hub):
        await pilot.resize_terminal(*size)
        await hub.settle(pilot)
        lines = screen(app).splitlines()
        assert (len(lines), max(map(len, lines)) <= size[0]) == (size[1], True)
        assert "1 critical" in " ".join(lines[:3])

    play(stalled(), scenario)


def test_thousand_ranks_are_scrolled_through(play):
    ranks = tuple(map(row, range(1024)))

    async def scenario(app, pilot, hub):
        await pilot.press("enter", "end")
        await hub.settle(pilot)
        assert "  1023  node-a" in screen(app)

    play(replace(healthy(), ranks=ranks), scenario)
