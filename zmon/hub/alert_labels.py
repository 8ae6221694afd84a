"""The labels of a job that its alerts carry, so that routes of Alertmanager can read them.

A site declares the names and the values. A job is not trusted: any other value is left out, so that a job cannot choose
who is paged. Pure, so that two hubs with the same declarations publish the same labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from zmon.errors import UsageError
from zmon.metrics.alert_labels import MAX_ALERT_LABELS, name_problem

PAGE = "docs/deploy/alerting.md"
_EXAMPLE = "Write for example {team: [ads, search], owner: '[a-z]+'}"


@dataclass(frozen=True)
class AlertLabels:
    """The labels that a site has declared, and the pattern that the whole value of each must match."""

    patterns: Mapping[str, re.Pattern[str]] = field(default_factory=dict)

    def accepted(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels of a job that its alerts carry: declared ones with an accepted value that is not empty."""
        return {
            name: value
            for name, pattern in self.patterns.items()
            if (value := labels.get(name, "")) and pattern.fullmatch(value)
        }


def read_alert_labels(settings: object, key: str) -> AlertLabels:
    """Return the labels that a site declares: a mapping of names to a list of values or a pattern. Raises UsageError.

    `key`: the key of the configuration, which an error names.
    """
    if not isinstance(settings, dict | None):
        raise UsageError(f"cannot set {key}", f"it is {settings!r}, but it needs names with values", _EXAMPLE)
    declared = settings or {}
    if len(declared) > MAX_ALERT_LABELS:
        raise UsageError(
            f"cannot set {key}", f"it has {len(declared)} labels, and at most {MAX_ALERT_LABELS} are allowed"
        )
    for name in declared:
        if problem := name_problem(name):
            raise UsageError(f"cannot set {key}", problem, f"See {PAGE}")
    return AlertLabels({name: _pattern(values, f"{key}.{name}") for name, values in declared.items()})


def _pattern(values: object, key: str) -> re.Pattern[str]:
    """Return the pattern of a label, from a list of its values or from a regular expression. Raises UsageError."""
    if isinstance(values, list) and values and all(isinstance(value, str) and value for value in values):
        return re.compile("|".join(map(re.escape, values)))
    if not isinstance(values, str) or not values:
        reason = f"it is {values!r}, but it needs a list of texts or one pattern"
        raise UsageError(f"cannot set {key}", reason, f"{_EXAMPLE}; quote numbers, yes and no")
    try:
        return re.compile(values)
    except re.error as error:
        raise UsageError(f"cannot set {key}", f"{values!r} is no regular expression ({error})", _EXAMPLE) from error
