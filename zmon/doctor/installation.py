"""Checks what ranks get from this installation: one distribution, the C edge of the probe, and a torch that was tried.

zmon has two distributions: `zmon-training`, and the smaller `zmon-probe` for jobs. The public index has another program
with the name `zmon` and the same import name. pip lets two distributions own the same files: the one that is installed
last replaces files of the other, and the one that is uninstalled first deletes them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, packages_distributions, version

import zmon
from zmon.doctor.check import Check
from zmon.errors import DISTRIBUTION, PROBE_DISTRIBUTION
from zmon.probe import edge
from zmon.probe.autoload.sitecustomize import OLDEST_TORCH

# A version is added once the tests that need torch have passed with it (docs/torch.md). It includes the build, as in
# torch.__version__; other builds were not tried.
TRIED: tuple[str, ...] = ("2.13.0+cpu",)
_PACKAGE, _PROBE, _TORCH = "package", "probe", "torch"  # names of checks


def installed_distributions() -> frozenset[str]:
    """Return the names of the installed distributions that have a package `zmon`."""
    return frozenset(packages_distributions().get("zmon", ()))


def package(names: Collection[str], is_intact: bool = True) -> Check:
    """Check that at most one distribution has files of a package `zmon`, and that it is one of ours.

    `names`: the distributions that have such files. `is_intact`: `zmon/__init__.py` is ours.
    """
    ours = [name for name in (DISTRIBUTION, PROBE_DISTRIBUTION) if name in names]
    foreign = sorted(set(names) - set(ours))
    superfluous = sorted([*foreign, *ours[1:]])
    if is_intact and not superfluous:
        if not ours:
            return Check(_PACKAGE, None, f"zmon {zmon.__version__} is not installed: Python imports it from a folder")
        return Check(_PACKAGE, True, f"zmon {zmon.__version__} is installed by {ours[0]}")
    if foreign:
        result = f"the package {' and '.join(foreign)} is installed here, another program with the same import name"
    elif superfluous:
        result = f"{' and '.join(ours)} are both installed, and one has replaced files of the other"
    else:
        result = "zmon/__init__.py is missing, or is that of another program"
    steps = [f"run {sys.executable} -m pip uninstall {' '.join(superfluous)}"] if superfluous else []
    if ours or not superfluous:  # otherwise Python imports ours from a folder, and removing the others is enough
        steps.append(f"install {ours[0] if ours else DISTRIBUTION} again with --force-reinstall --no-deps")
    next_step = ", then ".join(steps)
    return Check(_PACKAGE, False, result, f"{next_step[:1].upper()}{next_step[1:]}.")


def probe_edge(chosen: str = edge.CHOSEN.name, is_built: bool = edge.C is not None) -> Check:
    """Check that ranks run the C edge; the Python edge records the same, so it is not inert."""
    if chosen != edge.PYTHON.name:
        return Check(_PROBE, True, "ranks run its C edge")
    if is_built:
        result = f"ranks run its Python edge, because ZMON_EDGE={os.environ.get('ZMON_EDGE', chosen)}"
        return Check(_PROBE, None, result, "Unset ZMON_EDGE to run the C edge, which costs less.")
    result = "ranks run its Python edge, because this package has no C edge for this Python"
    costs = "Jobs are watched, but steps cost several times as much."
    return Check(_PROBE, None, result, f"{costs} Install a C compiler and Python.h, then zmon again.")


def installed_torch() -> str | None:
    """Return the version of torch that is installed with zmon, without importing it; None if there is none."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def torch_version(installed: str | None) -> Check:
    """Check that zmon was tried with this torch. An untried version is not inert, because its jobs are watched."""
    tried = ", ".join(TRIED)
    if installed is None:
        result = f"torch is not installed with zmon; zmon was tried with {tried}, which a job may use from elsewhere"
        return Check(_TORCH, None, result)
    if installed in TRIED:
        return Check(_TORCH, True, f"zmon was tried with the installed torch {installed}")
    oldest = ".".join(map(str, OLDEST_TORCH))
    if _is_too_old(installed):
        next_step = f"Jobs in this environment are unwatched. Install torch {oldest} or newer."
        return Check(_TORCH, False, f"torch {installed} is installed, but zmon needs {oldest} or newer", next_step)
    next_step = "Jobs are watched. Check with a short job first that zmon status shows its steps and collectives."
    return Check(_TORCH, None, f"torch {installed} is installed, but zmon was tried with {tried} only", next_step)


def _is_too_old(installed: str) -> bool:
    """Return True if this version of torch is older than the oldest one with which zmon works."""
    try:
        return tuple(int(part) for part in installed.split(".")[:2]) < OLDEST_TORCH
    except ValueError:  # a custom version, which cannot be compared
        return False
