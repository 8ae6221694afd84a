"""Fixtures of the tests that open a page in Streamlit's AppTest, with a recorded Prometheus and a fake hub."""

from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.dashboards.recorded import recorded
from tests.dashboards.world import World
from tests.http_server import FakeServer

PAGE = (
    "from dashboards.views import frame, {view}\nframe.show({view}.show, [], '{view}', shows_one_job={shows_one_job})\n"
)
ALL_JOBS_VIEWS = ("cluster", "armed")
PATIENCE_SECONDS = 20.0  # a busy machine is not a failure


@pytest.fixture(autouse=True)
def _clear_cache() -> None:
    """Clear the cached answers, so that a test does not get answers of the test before."""
    st.cache_resource.clear()


@pytest.fixture(scope="session")
def recorded_prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Prometheus with recorded blocks, which is started once."""
    with recorded(tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@pytest.fixture
def world(recorded_prometheus: str) -> World:
    """The state that the servers report, which a test may change before it opens a page."""
    return World(recorded_prometheus)


@pytest.fixture
def urls(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Start the servers, set the variables with their URLs, and set the clock of pages to the moment of the world."""
    for module in ("queries", "http_requests"):
        monkeypatch.setattr(f"dashboards.{module}.TIMEOUT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr("dashboards.glance.read_glance.__defaults__", (lambda: float(world.moment),))
    hub, prometheus = FakeServer(world.hub), FakeServer(world.prometheus)
    monkeypatch.setenv("ZMON_HUB_URL", hub.url)
    monkeypatch.setenv("ZMON_PROMETHEUS_URL", prometheus.url)
    yield {"hub": hub.url, "prometheus": prometheus.url}
    hub.close()
    prometheus.close()


@pytest.fixture
def open_page(urls: dict[str, str]) -> Callable[..., AppTest]:
    """Return a function that opens a view with parameters of its URL."""

    def open_view(view: str = "job", **query: str) -> AppTest:
        app = AppTest.from_string(PAGE.format(view=view, shows_one_job=view not in ALL_JOBS_VIEWS), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        assert not app.error
        return app

    return open_view
