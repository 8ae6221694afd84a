"""The /metrics page of a collector."""

from __future__ import annotations

from zmon.metrics.page import Page


def collector_page(num_agents: int, num_answering: int, last_request_time: float | None) -> bytes:
    """Return the page of a collector. `last_request_time`: unix time of a hub's last request; None: none came yet."""
    page = Page()
    page.add("zmon_collector_agents", num_agents)
    page.add("zmon_collector_agents_answering", num_answering)
    page.add("zmon_collector_last_request_timestamp_seconds", last_request_time)
    return page.render()
