"""Severities of findings and alerts. `zmon.schema.names` defines their order."""

from zmon.schema.names import severity_order

CRITICAL, WARNING, INFO = "critical", "warning", "info"


def urgency(severity: str) -> int:
    """Return a sort key that puts the most urgent severity first."""
    return -severity_order(severity)


def is_info(severity: str) -> bool:
    """Return True for info, which is not a fault and has no culprit."""
    return severity == INFO
