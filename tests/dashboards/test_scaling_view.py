"""The page Scaling: recorded and predicted steps, reasons for unknown ones, and what-ifs in the URL."""

import pytest

from tests.dashboards.world import SCALING, changed, text


def test_scaling_shows_why_a_size_is_unknown(opened, world):
    app = opened("scaling", job_id="ads")
    assert "nobody has measured how fast all_to_all is between hosts" in text(app)


def test_scaling_of_one_size_alone_says_why_there_are_no_others(opened, world):
    world.scaling = changed(SCALING, sizes=[], unknown="only one size was recorded")
    assert "only one size was recorded" in text(opened("scaling", job_id="ads"))


def test_a_slider_asks_for_its_factor(opened, world):
    app = opened("scaling", job_id="ads")
    app.select_slider[0].set_value(2).run()
    assert ("/api/v1/jobs/ads/scaling", {"what_if": "net=2"}) in world.hub_requests


def test_what_if_is_in_the_url_and_a_link_with_it_asks_the_same(opened, world):
    app = opened("scaling", job_id="ads")
    app.select_slider[0].set_value(2).run()
    assert app.query_params["what_if"] in ("net=2", ["net=2"])  # by version of Streamlit
    world.hub_requests.clear()
    sent = opened("scaling", job_id="ads", what_if="net=4")
    assert sent.select_slider[0].value == 4
    assert ("/api/v1/jobs/ads/scaling", {"what_if": "net=4"}) in world.hub_requests
    sent.select_slider[0].set_value(1).run()
    assert "what_if" not in sent.query_params


@pytest.mark.parametrize("what_if", ["net=7", "net=1", "wings=2"])
def test_a_link_with_an_unknown_what_if_shows_the_job_unchanged(opened, world, what_if):
    assert opened("scaling", job_id="ads", what_if=what_if).select_slider[0].value == 1
    assert ("/api/v1/jobs/ads/scaling", {}) in world.hub_requests
    assert not any(query for path, query in world.hub_requests if path.endswith("scaling"))


def test_a_job_without_records_shows_the_reason(opened, world):
    world.scaling = changed(SCALING, points=[], now=None, sizes=[], unknown="nothing was recorded of ads")
    assert "nothing was recorded of ads" in text(opened("scaling", job_id="ads"))
