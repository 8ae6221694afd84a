"""Are the hosts of a job well, and their GPUs?"""

from dashboards.panels import hardware
from dashboards.views import banner, frame, host, hosts, panel
from dashboards.views.seen import Seen


def show(seen: Seen) -> None:
    """The hosts at one look, then each question over time: of the job's hosts together, or of one.

    Where no GPU is read, what is known of the hosts comes first.
    """
    panel.ahead(hardware.PANELS, seen)
    frame.live(banner.line, seen)
    frame.choices(seen, host.choose)
    both = (hardware.GPUS, hardware.HOSTS)
    for panels in both if hosts.show(seen) else reversed(both):
        panel.grid(panels, seen)
