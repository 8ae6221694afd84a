"""What ranks exchange: how much, how fast, who waits for it, who sends more than others, and what the wire says."""

from dashboards.panels import communication
from dashboards.views import banner, frame, host, panel
from dashboards.views.seen import Seen


def show(seen: Seen) -> None:
    """The charts."""
    if seen.job_id:
        panel.ahead(communication.PANELS, seen)
    frame.live(banner.line, seen)
    frame.choices(seen, host.choose)
    if seen.job_id:
        panel.grid(communication.PANELS, seen)
