"""The versions of torch that this zmon was tried with, and whether the one in this environment is among them.

A version is added to `TRIED` when the tests that need torch have passed with it; the results are in docs/versions.md.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from zmon.doctor.check import Check
from zmon.probe.autoload.sitecustomize import OLDEST_TORCH

TRIED: tuple[str, ...] = ("2.13.0+cpu",)  # with the build, as torch.__version__ has it: another build was not tried
_NAME = "torch"


def installed_torch() -> str | None:
    """The version of the torch that is installed beside zmon, without importing it; None where there is none."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def torch_version(installed: str | None) -> Check:
    """Whether zmon was tried with this torch. An untried one is watched as well, so it is not reported as inert."""
    tried = ", ".join(TRIED)
    if installed is None:
        return Check(_NAME, None, f"no torch beside zmon; zmon was tried with {tried}, which a job may have elsewhere")
    if installed in TRIED:
        return Check(_NAME, True, f"torch {installed} is beside zmon, and zmon was tried with it")
    oldest = ".".join(map(str, OLDEST_TORCH))
    if _is_too_old(installed):
        return Check(
            _NAME,
            False,
            f"torch {installed} is beside zmon, and zmon needs {oldest} or newer",
            f"Jobs in this environment are not watched: install torch {oldest} or newer.",
        )
    return Check(
        _NAME,
        None,
        f"torch {installed} is beside zmon, and zmon was tried with {tried} only",
        "Jobs are watched. See whether zmon status shows steps and collectives of a short job first.",
    )


def _is_too_old(installed: str) -> bool:
    try:
        return tuple(int(part) for part in installed.split(".")[:2]) < OLDEST_TORCH
    except ValueError:  # a version of somebody's own, which says nothing of its age
        return False
