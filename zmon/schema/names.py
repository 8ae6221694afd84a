"""The vocabulary on the wire: activities, phases, collective operations, severities.

The standard library only: ranks import this module.
"""

from __future__ import annotations

import re
from typing import Literal

SCHEMA = 1

ACTIVITIES = ("init", "train", "eval", "checkpoint", "done")

PHASES = ("data", "h2d", "embedding", "forward", "backward", "optimizer", "other")

OPS = (
    "all_to_all", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "barrier",
    "send", "recv",
)  # fmt: skip

JOB_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}")  # a directory of its own

WordsKind = Literal["exception", "exit", "signal"]

Severity = Literal["info", "warning", "critical"]
