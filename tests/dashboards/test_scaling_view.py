"""Tests of the page Scaling: the reasons for unknown predictions, and the what-if factors in the URL."""

import pytest

from tests.dashboards.world import SCALING, changed, page_text


def test_scaling_page_shows_reason_for_unknown_size(open_page, world):
    app = open_page("scaling", job_id="ads")
    assert "nobody has measured how fast all_to_all is between hosts" in page_text(app)


@pytest.mark.parametrize("points", [SCALING.points, []])
def test_scaling_page_without_sizes_shows_reason(open_page, world, points):
    world.scaling = changed(SCALING, points=points, now=None, sizes=[], unknown="only one size was recorded")
    assert "only one size was recorded" in page_text(open_page("scaling", job_id="ads"))


def test_slider_requests_prediction_with_its_factor_and_follows_the_url(open_page, world):
    app = open_page("scaling", job_id="ads")
    app.select_slider[0].set_value(2).run()
    assert ("/api/v1/jobs/ads/scaling", {"what_if": "net=2"}) in world.hub_requests
    assert app.query_params["what_if"] in ("net=2", ["net=2"])  # versions of Streamlit differ
    world.hub_requests.clear()
    app_with_what_if = open_page("scaling", job_id="ads", what_if="net=4")
    assert app_with_what_if.select_slider[0].value == 4
    assert ("/api/v1/jobs/ads/scaling", {"what_if": "net=4"}) in world.hub_requests
    app_with_what_if.select_slider[0].set_value(1).run()
    assert "what_if" not in app_with_what_if.query_params


@pytest.mark.parametrize("what_if", ["net=7", "net=1", "wings=2"])
def test_unknown_what_if_in_url_is_ignored(open_page, world, what_if):
    assert open_page("scaling", job_id="ads", what_if=what_if).select_slider[0].value == 1
    assert ("/api/v1/jobs/ads/scaling", {}) in world.hub_requests
    assert not any(query for path, query in world.hub_requests if path.endswith("scaling"))
