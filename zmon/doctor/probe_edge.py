"""Checks which edge of the probe the ranks of this installation run: C, or Python, which costs more."""

from __future__ import annotations

import os

from zmon.doctor.check import Check
from zmon.probe import edge

_NAME = "probe"


def probe_edge(chosen: str = edge.CHOSEN.name, is_built: bool = edge.C is not None) -> Check:
    """Check that ranks run the C edge; the Python edge records the same, so it is not inert."""
    if chosen != edge.PYTHON.name:
        return Check(_NAME, True, "ranks run its C edge")
    if is_built:
        result = f"ranks run its Python edge, because ZMON_EDGE={os.environ.get('ZMON_EDGE', chosen)}"
        return Check(_NAME, None, result, "Unset ZMON_EDGE to run the C edge, which costs less.")
    return Check(
        _NAME,
        None,
        "ranks run its Python edge, because this package has no C edge for this Python",
        "Jobs are watched, but steps cost several times as much. Install a C compiler and Python.h, then zmon again.",
    )
