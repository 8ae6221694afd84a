"""Prometheus and Alertmanager of a standing stack, told to look four times as often as zmon ships them.

Scrapes and rules come every 500 ms instead of every 2 to 10 s, and notifications of a group every second instead of
every 5. What else a rule says is left alone, unless a test asks for it: how long an alert is kept firing. The shipped
intervals are tested by the drills (`tests/drills/test_played.py`), whose stack is that of `zmon drill`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

INTERVAL = "500ms"
KEPT_FIRING = re.compile(r"(?m)^( +keep_firing_for): \d+s\b")
SOON = re.compile(r"(?m)^( +interval): \d+s\b")  # those in minutes are left alone


def quick_rules(rules: Iterable[Path], room: Path, kept: str | None = None) -> list[Path]:
    """Copies of rule files in that folder, whose groups are evaluated every 500 ms; an alert is kept for so long."""
    room.mkdir(parents=True, exist_ok=True)
    copies = []
    for file in rules:
        text, changed = SOON.subn(rf"\1: {INTERVAL}", file.read_text())
        assert changed, f"{file} has no group with an interval in seconds"
        if kept is not None:
            text = KEPT_FIRING.sub(rf"\1: {kept}", text)
        copies.append(room / file.name)
        copies[-1].write_text(text)
    return copies


def quick_prometheus(text: str, room: Path, kept: str | None = None) -> str:
    """A prometheus.yml that scrapes every 500 ms and has copies of its rules in that folder."""
    config = yaml.safe_load(text)
    config["global"] |= {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    config["rule_files"] = [str(copy) for copy in quick_rules(map(Path, config["rule_files"]), room, kept)]
    return yaml.safe_dump(config, sort_keys=False)


def quick_alertmanager(text: str) -> str:
    """An alertmanager.yml that tells news of a group after a second."""
    config = yaml.safe_load(text)
    config["route"]["group_interval"] = "1s"
    return yaml.safe_dump(config, sort_keys=False)
