"""Which receiver an alert ends in. Pure: Alertmanager's configuration in, names out.

Alertmanager walks its tree of routes from the top: the first child that matches takes the alert, the next ones too
where that child says `continue`, and the parent keeps what no child takes. A label that an alert lacks is an empty one.
Source: https://prometheus.io/docs/alerting/latest/configuration/#route
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_MATCHER = re.compile(r'\s*"?([\w:.\-]+)"?\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^,}]*?)\s*(?:,|\}|$)')
_SIGNS = {(True, False): "=", (False, False): "!=", (True, True): "=~", (False, True): "!~"}  # by isEqual, isRegex


class Ending(NamedTuple):
    """Where an alert ends. `times`: names of the time intervals in which it is muted, or alone passes."""

    receiver: str
    times: tuple[str, ...]


def endings(config: Mapping[str, Any], labels: Mapping[str, str]) -> list[Ending]:
    """Where such an alert ends; more than one where a route says `continue`."""
    return list(dict.fromkeys(_walk(config["route"], labels, "")))


def integrations(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Ways to tell somebody, by receiver: webhook, pagerduty, …"""
    return {
        receiver["name"]: [
            key.removesuffix("_configs") for key, ways in receiver.items() if key.endswith("_configs") and ways
        ]
        for receiver in config.get("receivers") or ()
    }


def silenced(matchers: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """Whether a silence, as the API gives it, is about such an alert."""
    return all(
        holds(labels.get(one["name"], ""), _SIGNS[one.get("isEqual", True), one["isRegex"]], one["value"])
        for one in matchers
    )


def matches(matchers: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether all hold: `matchers: ['a="b"']`, and `match` and `match_re` of old."""
    plain = [(name, "=", str(value)) for name, value in (matchers.get("match") or {}).items()]
    plain += [(name, "=~", str(value)) for name, value in (matchers.get("match_re") or {}).items()]
    told = matchers.get("matchers") or ()
    plain += [one for line in ([told] if isinstance(told, str) else told) for one in parse(line)]
    return all(holds(labels.get(name, ""), sign, value) for name, sign, value in plain)


def parse(line: str) -> Iterator[tuple[str, str, str]]:
    """Matchers as Alertmanager writes them: name, sign, value."""
    for match in _MATCHER.finditer(line.strip().removeprefix("{")):
        name, sign, value = match.groups()
        yield name, sign, json.loads(value) if value.startswith('"') else value


def holds(value: str, sign: str, against: str) -> bool:
    """One matcher on one label; expressions match the whole value."""
    same = bool(re.fullmatch(against, value)) if sign.endswith("~") else value == against
    return same != sign.startswith("!")


def _walk(route: Mapping[str, Any], labels: Mapping[str, str], inherited: str) -> Iterator[Ending]:
    receiver = route.get("receiver") or inherited
    taken = False
    for child in route.get("routes") or ():
        if matches(child, labels):
            taken = True
            yield from _walk(child, labels, receiver)
            if not child.get("continue"):
                break
    if not taken:
        times = (route.get(key) or () for key in ("mute_time_intervals", "active_time_intervals"))
        yield Ending(receiver, tuple(name for names in times for name in names))
