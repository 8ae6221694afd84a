"""Checks that one distribution alone has installed zmon: `zmon`, or the smaller `zmon-probe` for jobs.

pip lets two distributions own the same files. The one that comes last wins, and the first one to leave takes the files
of the other along.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.metadata import packages_distributions

import zmon
from zmon.doctor.check import Check
from zmon.errors import DISTRIBUTION

_NAME = "package"


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
