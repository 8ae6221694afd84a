"""Tests of the bar from the ideal step to the real one: its parts, their order, numbers and colours."""

import pytest

from dashboards.colours import BLUE, CATEGORIES, GREY
from dashboards.views import time_bar
from tests.dashboards.recorded import EMPTY
from tests.dashboards.world import JOB, changed, page_text

SECONDS = {
    "stall": 0.5, "data": 0.25, "forward": 2.0, "all_to_all": 4.0, "backward": 1.0, "imbalance": 0.2, "init": 0.001,
    "eval": 0.002, "all_reduce": 0.1,
}  # fmt: skip


def test_parts_of_the_bar_are_in_order_from_the_ideal_step_to_the_shortest_categories():
    assert time_bar.parts(SECONDS) == [
        ("ideal", 3.0, BLUE, "self time of the median rank, without waiting"),  # forward and backward
        ("input", 0.25, CATEGORIES["data"], "waiting for the DataLoader"),
        ("imbalance", 0.2, CATEGORIES["imbalance"], "waiting for the slowest rank"),
        ("all_to_all", 4.0, CATEGORIES["all_to_all"], "time in all_to_all"),
        ("all_reduce", 0.1, CATEGORIES["all_reduce"], "time in all_reduce"),
        ("stall", 0.5, CATEGORIES["stall"], "nothing moved"),
        ("others", pytest.approx(0.003), GREY, "eval, init"),
    ]


def test_bar_names_parts_that_are_wide_enough():
    html = time_bar.html(time_bar.parts({"forward": 3.0, "all_to_all": 0.9, "stall": 0.1}), "for each step")
    assert "<b>4.0 s</b> for each step, <b>3.0 s</b> of it ideal: <b>75.0 %</b>" in html
    assert '>ideal</i><i style="--tint:#E69F00;width:22.5%" title="all_to_all (time in all_to_all): 900 ms' in html
    assert 'width:2.5%" title="stall (nothing moved): 100 ms, 2.5 %"></i>' in html
    assert "stall <b>100 ms</b> <small>2.5 %</small>" in html


def test_bar_is_on_the_page_before_the_ranks_with_its_promql(open_page):
    page = page_text(open_page())
    assert page.index("zmon-vitals") < page.index("zmon-time") < page.index("zmon-ranks")
    assert "increase(zmon_job_time_seconds_total" in page.partition(time_bar.QUESTION)[2]


def test_without_steps_in_the_range_the_bar_is_the_account_of_the_hub(open_page, world):
    world.moment = EMPTY
    world.jobs = [changed(JOB, time={"forward": 60.0, "stall": 1740.0})]
    app = open_page()
    assert "<b>30 min</b> over all launches of the job, <b>1 min</b> of it ideal: <b>3.3 %</b>" in page_text(app)
    assert any("time account of the hub" in caption.value for caption in app.caption)


def test_bar_without_any_account_is_unknown(open_page, world):
    world.moment = EMPTY
    page = page_text(open_page())
    assert "unknown: Prometheus has no zmon_job_time_seconds_total of a step that ended in this time range" in page
    assert 'data-testid="zmon-time"><p>unknown' in page
