"""The optional packages of zmon: which one is missing, and the command that installs it."""

from __future__ import annotations

import importlib.util
import sys

from zmon.errors import PartFailed

DISTRIBUTION = "zmon"  # the name in pyproject.toml


def install(extra: str) -> str:
    """Return the command that installs an extra into the Python that runs zmon.

    It names this Python. The pip of another one knows no zmon and would take the program of this name from the public
    index, which is not ours.
    """
    return f"{sys.executable} -m pip install '{DISTRIBUTION}[{extra}]'"


def is_installed(module: str) -> bool:
    """Return True if a top-level module can be imported; it is not imported."""
    return importlib.util.find_spec(module) is not None


def need(module: str, part: str, extra: str) -> None:
    """Raise PartFailed with the command to run if a module of a part is missing."""
    if not is_installed(module):
        raise PartFailed(f"{part} cannot run", f"{module} is not installed", f"Run {install(extra)}")
