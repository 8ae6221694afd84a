"""Does the view of scaling draw what was recorded, say what nobody knows, and keep its what-ifs in the URL?"""

import pytest

from tests.dashboards.world import SCALING, changed, text


def test_scaling_draws_what_was_recorded_and_says_what_nobody_knows(opened, world):
    app = opened("scaling", job_id="ads")
    assert "nobody has measured how fast all_to_all is between hosts" in text(app)


def test_scaling_of_one_size_alone_says_why_there_are_no_others(opened, world):
    world.scaling = changed(SCALING, sizes=[], unknown="only one size was recorded")
    assert "only one size was recorded" in text(opened("scaling", job_id="ads"))


def test_what_if_asks_for_what_was_changed(opened, world):
    app = opened("scaling", job_id="ads")
    app.select_slider[0].set_value(2).run()
    assert ("/api/v1/jobs/ads/scaling", {"what_if": "net=2"}) in world.asked_hub


def test_what_if_is_in_the_url_and_a_link_with_it_asks_the_same(opened, world):
    app = opened("scaling", job_id="ads")
    app.select_slider[0].set_value(2).run()
    assert app.query_params["what_if"] in ("net=2", ["net=2"])  # by version of Streamlit
    world.asked_hub.clear()
    sent = opened("scaling", job_id="ads", what_if="net=4")
    assert sent.select_slider[0].value == 4
    assert ("/api/v1/jobs/ads/scaling", {"what_if": "net=4"}) in world.asked_hub
    sent.select_slider[0].set_value(1).run()
    assert "what_if" not in sent.query_params


@pytest.mark.parametrize("what_if", ["net=7", "net=1", "wings=2"])
def test_a_link_with_a_what_if_that_there_is_not_shows_the_job_as_it_is(opened, world, what_if):
    assert opened("scaling", job_id="ads", what_if=what_if).select_slider[0].value == 1
    assert ("/api/v1/jobs/ads/scaling", {}) in world.asked_hub
    assert not any(asked for path, asked in world.asked_hub if path.endswith("scaling"))


def test_a_job_of_which_nothing_was_recorded_says_why(opened, world):
    world.scaling = changed(SCALING, points=[], now=None, sizes=[], unknown="nothing was recorded of ads")
    assert "nothing was recorded of ads" in text(opened("scaling", job_id="ads"))
