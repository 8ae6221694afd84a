"""The charts of each page: one question each, one line to register. Grafana's dashboards are made of the same ones."""

from dashboards.panels import communication, hardware, job, ranks, scaling
from dashboards.panels.panel import Asked, Panel

VIEWS: dict[str, tuple[Panel, ...]] = {
    "job": job.PANELS,
    "ranks": (*ranks.PANELS, *ranks.ONE_RANK),
    "communication": communication.PANELS,
    "scaling": scaling.PANELS,
    "hardware": hardware.PANELS,
}
ALL = tuple(panel for panels in VIEWS.values() for panel in panels)

__all__ = ["ALL", "VIEWS", "Asked", "Panel"]
