"""Checks the installed version of torch against the versions that zmon was tried with.

A version is added to `TRIED` once the tests that need torch have passed with it; the results are in docs/versions.md.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from zmon.doctor.check import Check
from zmon.probe.autoload.sitecustomize import OLDEST_TORCH

TRIED: tuple[str, ...] = ("2.13.0+cpu",)  # including the build, as in torch.__version__; other builds were not tried
_NAME = "torch"


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
        return Check(_NAME, None, result)
    if installed in TRIED:
        return Check(_NAME, True, f"zmon was tried with the installed torch {installed}")
    oldest = ".".join(map(str, OLDEST_TORCH))
    if _is_too_old(installed):
        return Check(
            _NAME,
            False,
            f"torch {installed} is installed, but zmon needs {oldest} or newer",
            f"Jobs in this environment are unwatched. Install torch {oldest} or newer.",
        )
    return Check(
        _NAME,
        None,
        f"torch {installed} is installed, but zmon was tried with {tried} only",
        "Jobs are watched. Check with a short job first that zmon status shows its steps and collectives.",
    )


def _is_too_old(installed: str) -> bool:
    try:
        return tuple(int(part) for part in installed.split(".")[:2]) < OLDEST_TORCH
    except ValueError:  # a custom version, which cannot be compared
        return False
