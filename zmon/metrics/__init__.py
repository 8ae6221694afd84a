"""The /metrics pages of agent and hub. Metric names appear in this package only.

`names` has the name, type, labels and help text of each metric. `agent` and `hub` write the pages.
"""

from zmon.metrics.agent import agent_page
from zmon.metrics.hub import HubPage, free_labels, hub_page
from zmon.metrics.names import SPECS, STEP_HISTOGRAM, STEP_SECONDS_BOUNDS
from zmon.metrics.page import CONTENT_TYPE, Page

__all__ = [
    "CONTENT_TYPE",
    "SPECS",
    "STEP_HISTOGRAM",
    "STEP_SECONDS_BOUNDS",
    "HubPage",
    "Page",
    "agent_page",
    "free_labels",
    "hub_page",
]
