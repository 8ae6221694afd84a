"""Tests of the first load of a page: the requests of the banner are sent together."""

import threading

from tests.dashboards.world import page_text
from tests.http_server import FakeServer


def test_requests_of_the_banner_are_sent_together(open_page, world, monkeypatch):
    """The hub answers neither request before it has both."""
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
