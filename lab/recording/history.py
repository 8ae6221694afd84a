"""Read from Prometheus what it knows about a job that trains, without anything that judges it."""

from __future__ import annotations

from collections.abc import Mapping

from lab.stage import client
from zmon.stack.replay import PastSeries

# Verdicts are left out: findings, what is recorded from them, and alerts.
_SELECTOR = '{__name__=~"zmon.+|up|scrape_samples_scraped",__name__!~"zmon_(finding|incident|alert).*|zmon:finding.*"}'


def history(
    prometheus: str, job_id: str, start: float, end: float, instances: Mapping[str, str]
) -> tuple[PastSeries, ...]:
    """Return all series of this time in unix seconds, of no other job.

    `instances`: the host of each address, or `hub`.
    """
    rows = client.query(prometheus, f"{_SELECTOR}[{end - start:.0f}s] @ {end:.3f}")
    return tuple(
        PastSeries(
            _labels(row["metric"], instances), tuple((float(time), float(value)) for time, value in row["values"])
        )
        for row in rows
        if row["metric"].get("job_id", job_id) == job_id
    )


def _labels(labels: dict[str, str], instances: Mapping[str, str]) -> dict[str, str]:
    instance = labels.get("instance")
    return labels if instance is None else {**labels, "instance": instances.get(instance, instance)}
