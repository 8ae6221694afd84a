"""Tests of the first load of a page: what is on the first screen comes first, and the banner waits for few requests."""

import threading

from streamlit.testing.v1 import AppTest

from dashboards.panels.job import LOSS, STEP_TIME
from dashboards.views.frame import HAS_DRAWN
from tests.dashboards.conftest import PAGE
from tests.dashboards.world import page_text
from tests.http_server import FakeServer


def test_charts_below_the_first_screen_are_drawn_after_it(urls):
    app = AppTest.from_string(PAGE.format(view="job", shows_one_job=True), default_timeout=60)
    app.query_params["job_id"] = "ads"
    app.run()
    assert STEP_TIME.question in page_text(app)
    assert LOSS.question not in page_text(app)
    app.session_state[HAS_DRAWN] = True  # the timer of the browser sets it
    app.run()
    assert LOSS.question in page_text(app)


def test_requests_of_the_banner_are_sent_together(open_page, world, monkeypatch):
    """The hub answers neither before it has both requests."""
    jobs, findings = threading.Event(), threading.Event()

    def answer(path: str, query: dict[str, str]) -> object:
        if path.endswith("/jobs"):
            jobs.set()
            assert findings.wait(10)
        elif "active" in query:
            findings.set()
            assert jobs.wait(10)
        return world.hub(path, query)

    hub = FakeServer(answer)
    monkeypatch.setenv("ZMON_HUB_URL", hub.url)
    assert "HEALTHY" in page_text(open_page("job", job_id="ads"))
    hub.close()
