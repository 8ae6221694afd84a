"""Severities as the dashboard treats them. `zmon.schema.names` orders them, for every part alike."""

from zmon.schema.names import severity_order

CRITICAL, WARNING, INFO = "critical", "warning", "info"


def urgency(severity: str) -> int:
    """A sort key, the most urgent first."""
    return -severity_order(severity)


def is_remark(severity: str) -> bool:
    """Whether it blames nobody."""
    return severity == INFO
