"""How urgent findings and alerts are: the one place of the dashboard that orders severities.

A newer hub may send a severity that this dashboard does not know. It is shown as a finding, under its own word.
"""

from zmon.schema.names import severity_order

CRITICAL, WARNING, INFO = "critical", "warning", "info"


def urgency(severity: str) -> int:
    """A sort key, the most urgent first."""
    return -severity_order(severity)


def is_remark(severity: str) -> bool:
    """Whether it blames nobody."""
    return severity == INFO
