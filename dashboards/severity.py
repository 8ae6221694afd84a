"""How urgent findings and alerts are: the one place that orders severities.

A newer hub may send a severity that this dashboard does not know. It ranks below a warning and above a remark, and is
shown as a finding: it may be serious, and whoever sees it can judge.
"""

CRITICAL, WARNING, INFO = "critical", "warning", "info"


def urgency(severity: str) -> int:
    """A sort key, the most urgent first."""
    return {CRITICAL: 0, WARNING: 1, INFO: 3}.get(severity, 2)


def is_remark(severity: str) -> bool:
    """Whether it blames nobody."""
    return severity == INFO
