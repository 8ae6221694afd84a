"""The kind of each test: one of four markers, and the one table that says which where neither test nor module does.

`unit` runs two at a time (pytest-xdist), everything else one after the other once those are through. So a test is
`unit` only where it starts no rank, network namespace, control group or browser and measures no lease: a small process
that holds a file, sleeps or prints is no reason. `slow` stands beside the kind and says that only `make test-all` runs
it; another of its kind is in `make test`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

KINDS = ("unit", "e2e", "browser", "drill")
OF_FIXTURES = {  # a test that uses it starts Chromium, or real processes of a job
    "browser": "browser",
    "start_rank": "e2e",
    "zygote": "e2e",
    "torch_zygote": "e2e",
}
OF_FOLDERS = {
    "tests/e2e": "e2e",  # on the standing stack
    "tests/jobs": "e2e",  # whole jobs under `zmon run`
}
NO_UNITS = tuple(OF_FOLDERS)


def kind_of(path: str, marked: Iterable[str], fixtures: Collection[str]) -> str:
    """The kind of a test in that file, by its markers, fixtures or folder. Raises ValueError where it has two."""
    own = [kind for kind in KINDS if kind in set(marked)]
    if len(own) > 1:
        raise ValueError(f"it is marked as {' and '.join(own)}: a test has one of {', '.join(KINDS)}")
    by_fixture = [kind for name, kind in OF_FIXTURES.items() if name in fixtures]
    by_folder = [kind for folder, kind in OF_FOLDERS.items() if path.startswith(f"{folder}/")]
    if own == ["unit"] and (by_fixture or by_folder):
        raise ValueError("it is marked as unit and starts a rank: see tests/kinds.py")
    return next(iter((*own, *by_fixture, *by_folder)), "unit")
