"""Fixtures that open a page of the dashboard in Streamlit's AppTest, with a fake Prometheus and a fake hub."""

from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.dashboards.world import Fake, World

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
    return World()


@pytest.fixture
def urls(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    hub, prometheus = Fake(world.hub), Fake(world.prometheus)
    monkeypatch.setenv("ZMON_HUB_URL", hub.url)
    monkeypatch.setenv("ZMON_PROMETHEUS_URL", prometheus.url)
    yield {"hub": hub.url, "prometheus": prometheus.url}
    hub.close()
    prometheus.close()


@pytest.fixture
def opened(urls: dict[str, str]) -> Callable[..., AppTest]:
    def open_page(view: str = "job", **query: str) -> AppTest:
        app = AppTest.from_string(PAGE.format(view=view, shows_one_job=view not in ALL_JOBS_VIEWS), default_timeout=20)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        assert not app.error
        return app

    return open_page
