"""The page Hardware: the hosts of a job and their GPUs."""

from dashboards.panels import hardware
from dashboards.views import banner, frame, host, hosts, panel
from dashboards.views.context import ViewContext


def show(context: ViewContext) -> None:
    """Draw the page: the hosts as tiles, then charts of all hosts of the job, or of the selected host.

    If no GPU is read, the charts of hosts come first.
    """
    panel.prefetch(hardware.PANELS, context)
    frame.live(banner.line, context)
    frame.choices(context, host.choose)
    both = (hardware.GPUS, hardware.HOSTS)
    for panels in both if hosts.show(context) else reversed(both):
        panel.grid(panels, context)
