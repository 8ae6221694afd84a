"""The vocabulary on the wire: activities, phases, collective operations, severities.

On the wire each is a plain string: a newer zmon may send a word that is not here, and it is shown as it came.

The standard library only: ranks import this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

SCHEMA = 1

ACTIVITIES = ("init", "train", "eval", "checkpoint", "done")
BETWEEN_STEPS = tuple(activity for activity in ACTIVITIES if activity not in ("train", "done"))  # all of it no step

PHASES = ("data", "h2d", "embedding", "forward", "backward", "optimizer", "other")

OPS = (
    "all_to_all", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "barrier",
    "send", "recv",
)  # fmt: skip

JOB_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}")  # a directory of its own

STALL = "stall"  # the detector whose findings say that a job stands still

WORDS_KINDS = ("exception", "exit", "signal")  # of a rank's last words

Severity = Literal[
    "info", "warning", "critical"
]  # those that detectors give; a finding from elsewhere may have another
_RISING = ("info", "warning", "", "critical")  # "": any other


def severity_order(severity: str) -> int:
    """The place of a severity, rising. An unknown one may matter more than a warning, and hides nothing that pages."""
    return _RISING.index(severity if severity in _RISING else "")


def in_order(words: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Each word once, those that are known in their order, the others behind them."""
    there = set(words)
    return (*(word for word in known if word in there), *sorted(there.difference(known)))
