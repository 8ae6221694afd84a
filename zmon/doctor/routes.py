"""Finds the receivers of an alert in the configuration of Alertmanager. Pure.

Alertmanager walks its tree of routes from the top. The first child that matches gets the alert; if that child has
`continue`, later children may get it as well. If no child matches, the parent gets the alert. A missing label counts
as an empty label.
Source: https://prometheus.io/docs/alerting/latest/configuration/#route
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# A matcher: its name, its sign, and its value with or without quotes.
_MATCHER = re.compile(r'\s*"?([\w:.\-]+)"?\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^,}]*?)\s*(?:,|\}|$)')
_SIGNS = {(True, False): "=", (False, False): "!=", (True, True): "=~", (False, True): "!~"}  # by isEqual, isRegex


class Destination(NamedTuple):
    """A receiver of an alert."""

    name: str
    time_intervals: tuple[str, ...]  # names of the intervals that mute or restrict its route


def destinations(config: Mapping[str, Any], labels: Mapping[str, str]) -> list[Destination]:
    """Return the receivers of an alert with these labels; there may be several if a route has `continue`."""
    return list(dict.fromkeys(_walk(config["route"], labels, "")))


def integrations(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the integrations of each receiver, such as webhook or pagerduty."""
    return {
        receiver["name"]: [
            key.removesuffix("_configs") for key, value in receiver.items() if key.endswith("_configs") and value
        ]
        for receiver in config.get("receivers") or ()
    }


def is_silenced(matchers: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """Return True if a silence with these matchers, as the API returns them, applies to an alert with these labels."""
    return _all_hold([(m["name"], _SIGNS[m.get("isEqual", True), m["isRegex"]], m["value"]) for m in matchers], labels)


def matches(route: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return True if all matchers of a route hold: `matchers: ['a="b"']`, and the older `match` and `match_re`."""
    matchers = [(name, "=", str(value)) for name, value in (route.get("match") or {}).items()]
    matchers += [(name, "=~", str(value)) for name, value in (route.get("match_re") or {}).items()]
    lines = route.get("matchers") or ()
    if isinstance(lines, str):
        lines = [lines]
    for line in lines:
        matchers += parse(line)
    return _all_hold(matchers, labels)


def parse(line: str) -> Iterator[tuple[str, str, str]]:
    """Parse matchers as Alertmanager writes them; yield name, sign and value of each."""
    for match in _MATCHER.finditer(line.strip().removeprefix("{")):
        name, sign, value = match.groups()
        yield name, sign, json.loads(value) if value.startswith('"') else value


def holds(value: str, sign: str, expected: str) -> bool:
    """Return True if the value of a label passes one matcher; a regular expression must match the whole value."""
    is_equal = bool(re.fullmatch(expected, value)) if sign.endswith("~") else value == expected
    return is_equal != sign.startswith("!")


def _all_hold(matchers: Iterable[tuple[str, str, str]], labels: Mapping[str, str]) -> bool:
    return all(holds(labels.get(name, ""), sign, value) for name, sign, value in matchers)


def _walk(route: Mapping[str, Any], labels: Mapping[str, str], inherited: str) -> Iterator[Destination]:
    """Yield the receivers below a route that matches. `inherited`: the receiver of its parent."""
    receiver = route.get("receiver") or inherited
    matched = False
    for child in route.get("routes") or ():
        if matches(child, labels):
            matched = True
            yield from _walk(child, labels, receiver)
            if not child.get("continue"):
                break
    if not matched:
        intervals = [*(route.get("mute_time_intervals") or ()), *(route.get("active_time_intervals") or ())]
        yield Destination(receiver, tuple(intervals))
