"""Fixtures of the tests that open a page in Streamlit's AppTest, with a fake Prometheus and a fake hub."""

from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.dashboards.world import FakeServer, World

PAGE = (
    "from dashboards.views import frame, {view}\nframe.show({view}.show, [], '{view}', shows_one_job={shows_one_job})\n"
)
ALL_JOBS_VIEWS = ("cluster", "armed")


@pytest.fixture(autouse=True)
def _clear_cache() -> None:
    """Clear the cached answers, so that a test does not get those of the test before."""
    st.cache_resource.clear()


@pytest.fixture
def world() -> World:
    """The state of the fake servers, which a test may change before it opens a page."""
    return World()


@pytest.fixture
def urls(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Start a fake hub and a fake Prometheus, and set the environment variables with their URLs."""
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
        app = AppTest.from_string(PAGE.format(view=view, shows_one_job=view not in ALL_JOBS_VIEWS), default_timeout=20)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        assert not app.error
        return app

    return open_view
