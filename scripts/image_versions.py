"""Write the versions of the container images: the versions that are installed here, with which the tests ran.

Usage: `python -m scripts.image_versions`, or `make image-versions`. The file has every package that the images install,
dependencies of dependencies included, and setuptools, which builds zmon.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from zmon.errors import DISTRIBUTION

FILE = Path(__file__).parents[1] / "deploy/container/constraints.txt"
ROOTS = (f"{DISTRIBUTION}[dashboard]", f"{DISTRIBUTION}[trainer]", "setuptools")
HEADER = (
    "# The versions in the images, with dependencies of dependencies: those that the tests ran with.\n"
    "# `make image-versions` writes this file.\n"
)


def installed_versions(roots: Iterable[str] = ROOTS) -> dict[str, str]:
    """Return the version of each package that the roots need on this machine, without zmon itself."""
    versions: dict[str, str] = {}
    visited: set[tuple[str, str]] = set()
    pending = [(requirement.name, extra) for requirement in map(Requirement, roots) for extra in _extras(requirement)]
    while pending:
        name, extra = pending.pop()
        if (name, extra) in visited:
            continue
        visited.add((name, extra))
        versions[canonicalize_name(name)] = distribution(name).version.partition("+")[0]  # torch has +cpu
        for requirement in map(Requirement, requires(name) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                pending += [(requirement.name, wanted) for wanted in _extras(requirement)]
    versions.pop(DISTRIBUTION, None)
    return versions


def _extras(requirement: Requirement) -> Iterator[str]:
    """Yield the extras of a requirement, and the empty one for what it needs without any."""
    yield ""
    yield from requirement.extras


def text(versions: dict[str, str]) -> str:
    """Return the content of the file."""
    return HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


if __name__ == "__main__":
    FILE.write_text(text(installed_versions()))
    sys.stdout.write(f"{FILE}\n")
