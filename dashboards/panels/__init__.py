"""The charts of each page. Each answers one question. The dashboards for Grafana have the same charts."""

from dashboards.panels import cluster, communication, hardware, job, ranks, scaling
from dashboards.panels.panel import Panel, Selection

VIEWS: dict[str, tuple[Panel, ...]] = {
    "cluster": cluster.PANELS,
    "job": job.PANELS,
    "ranks": (*ranks.PANELS, *ranks.ONE_RANK),
    "communication": communication.PANELS,
    "scaling": scaling.PANELS,
    "hardware": hardware.PANELS,
}
ALL = tuple(panel for panels in VIEWS.values() for panel in panels)

__all__ = ["ALL", "VIEWS", "Panel", "Selection"]
