"""The page Hardware: the hosts of a job and their GPUs."""

from dashboards.panels import hardware
from dashboards.views import banner, frame, hosts, panel
from dashboards.views.context import ViewContext


def show(context: ViewContext) -> None:
    """Draw the page: the hosts as tiles, then charts of all hosts of the job, or of the selected host.

    If there are no GPU metrics, the charts of hosts come first.
    """
    panel.prefetch(hardware.PANELS, context)
    frame.live(banner.line, context)
    frame.choices(context, hosts.choose)
    groups = (hardware.GPUS, hardware.HOSTS)
    for panels in groups if hosts.show(context) else reversed(groups):
        panel.grid(panels, context)
