"""Configuration of Prometheus and Alertmanager with shorter intervals than the shipped ones, for faster tests.

Prometheus scrapes and evaluates rules every 500 ms instead of every 2 to 10 s. Alertmanager sends changes of a group
every second instead of every 5 s. Everything else in a rule stays unchanged, except `keep_firing_for` if a test sets
it. The drills (`tests/lab/drills/test_played.py`) test the shipped intervals, with the stack of `zmon drill`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

INTERVAL = "500ms"
KEEP_FIRING = re.compile(r"(?m)^( +keep_firing_for): \d+s\b")
INTERVAL_SECONDS = re.compile(r"(?m)^( +interval): \d+s\b")  # intervals in minutes stay unchanged


def quick_rules(rules: Iterable[Path], room: Path, keep_firing: str | None = None) -> list[Path]:
    """Copy rule files into `room`, with groups evaluated every 500 ms; `keep_firing` replaces `keep_firing_for`."""
    room.mkdir(parents=True, exist_ok=True)
    copies = []
    for file in rules:
        text, changed = INTERVAL_SECONDS.subn(rf"\1: {INTERVAL}", file.read_text())
        assert changed, f"{file} has no group with an interval in seconds"
        if keep_firing is not None:
            text = KEEP_FIRING.sub(rf"\1: {keep_firing}", text)
        copies.append(room / file.name)
        copies[-1].write_text(text)
    return copies


def quick_prometheus(text: str, room: Path, keep_firing: str | None = None) -> str:
    """Return a prometheus.yml that scrapes every 500 ms and uses copies of its rules in `room`."""
    config = yaml.safe_load(text)
    config["global"] |= {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    config["rule_files"] = [str(copy) for copy in quick_rules(map(Path, config["rule_files"]), room, keep_firing)]
    return yaml.safe_dump(config, sort_keys=False)


def quick_alertmanager(text: str) -> str:
    """Return an alertmanager.yml that sends changes of a group after one second."""
    config = yaml.safe_load(text)
    config["route"]["group_interval"] = "1s"
    return yaml.safe_dump(config, sort_keys=False)
