"""Checks what this installation gives ranks: files of one distribution alone, and the C edge of the probe.

The distributions are `zmon`, and the smaller `zmon-probe` for jobs.
pip lets two distributions own the same files. The one that comes last wins, and the first one to leave takes the files
of the other along.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from importlib.metadata import packages_distributions

import zmon
from zmon.doctor.check import Check
from zmon.errors import DISTRIBUTION
from zmon.probe import edge

_NAME = "package"
_PROBE = "probe"


def installed_distributions() -> frozenset[str]:
    """Return the names of the installed distributions that have a package `zmon`."""
    return frozenset(packages_distributions().get("zmon", ()))


def package(names: Collection[str]) -> Check:
    """Check that at most one distribution has files of zmon; `names` are those that have some."""
    if not names:
        return Check(_NAME, None, f"zmon {zmon.__version__} is not installed: Python imports it from a folder")
    if len(names) == 1:
        return Check(_NAME, True, f"zmon {zmon.__version__} is installed by {next(iter(names))}")
    others = sorted(set(names) - {DISTRIBUTION})
    return Check(
        _NAME,
        False,
        f"{' and '.join(sorted(names))} are both installed, and one has replaced files of the other",
        f"Run {sys.executable} -m pip uninstall {' '.join(others)}, then install {DISTRIBUTION} again with "
        "--force-reinstall --no-deps.",
    )


def probe_edge(chosen: str = edge.CHOSEN.name, is_built: bool = edge.C is not None) -> Check:
    """Check that ranks run the C edge; the Python edge records the same, so it is not inert."""
    if chosen != edge.PYTHON.name:
        return Check(_PROBE, True, "ranks run its C edge")
    if is_built:
        result = f"ranks run its Python edge, because ZMON_EDGE={os.environ.get('ZMON_EDGE', chosen)}"
        return Check(_PROBE, None, result, "Unset ZMON_EDGE to run the C edge, which costs less.")
    return Check(
        _PROBE,
        None,
        "ranks run its Python edge, because this package has no C edge for this Python",
        "Jobs are watched, but steps cost several times as much. Install a C compiler and Python.h, then zmon again.",
    )
