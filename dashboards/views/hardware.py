"""The page Hardware: the hosts of a job and their GPUs."""

from functools import partial

from dashboards.panels import hardware
from dashboards.views import banner, frame, hosts, panel
from dashboards.views.context import ViewContext

ON_SCREEN = 4  # charts on the first screen of a laptop


def show(context: ViewContext) -> None:
    """Draw the page: the hosts as tiles, then charts of all hosts of the job, or of the selected host.

    If there are no GPU metrics, the charts of hosts come first.
    """
    panel.prefetch(hardware.PANELS, context)
    frame.live(banner.line, context)
    frame.choices(context, hosts.choose)
    groups = (hardware.GPUS, hardware.HOSTS)
    first, second = groups if hosts.show(context) else reversed(groups)
    panel.grid(first[:ON_SCREEN], context)
    frame.later(partial(panel.grid, (*first[ON_SCREEN:], *second)), context)
