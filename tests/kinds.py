"""Decide the kind of each test: one of four markers, or the kind of its fixtures or folder by the tables here.

Tests of kind `unit` and tests that are `apart` run two at a time (pytest-xdist). All other tests run after them, one
after the other. So a test is `unit` only if it starts no rank, network namespace, control group or browser and measures
no lease. It may start a small process that holds a file, sleeps or prints, or a Prometheus that scrapes nothing and
answers from recorded blocks.

The markers `apart` and `slow` are used beside the kind. A test that is `apart` starts ranks or servers, and APART has
its file. Only `make test-all` runs a slow test, and another test of the same subject is in `make test`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

KINDS = ("unit", "e2e", "browser", "drill")
KIND_BY_FIXTURE = {  # each of them starts Chromium or real processes of a job
    "browser": "browser",
    "start_rank": "e2e",
    "start_job": "e2e",
    "zygote": "e2e",
    "torch_zygote": "e2e",
}
KIND_BY_FOLDER = {
    "tests/e2e": "e2e",  # on the standing stack
    "tests/jobs": "e2e",  # whole jobs under `zmon run`
}
NO_UNITS = tuple(KIND_BY_FOLDER)
# The ranks and servers of these tests have their own folders and free ports, and a loaded machine changes no result.
# Before you add a test, run it beside others on a loaded machine.
APART = (
    "tests/agent/",
    "tests/bench/",
    "tests/box/",
    "tests/cli/test_replay.py",
    "tests/cli/watch/",
    "tests/dashboards/stores/test_same_answers.py",
    "tests/deploy/helm/",
    "tests/hostile/test_act",
    "tests/hostile/test_killed_daemons.py",
    "tests/hostile/test_slow_tls.py",
    "tests/hostile/test_web_config.py",
    "tests/jobs/",
    "tests/lab/cli/",
    "tests/packages/",
    "tests/probe/hooks/",
    "tests/probe/test_",
    "tests/stack/",
    "tests/trainer/",
)


ALONE = "not unit and not apart"  # the markers of tests that run one after the other, as scripts/test selects them
_NO_UNIT = re.compile(rf"\b(mark\.({'|'.join(KINDS[1:])})|{'|'.join(KIND_BY_FIXTURE)})\b")


def may_have_more_than_units(path: str, text: str) -> bool:
    """Return False if all tests of a file with this text are units: it names no kind and no fixture that decides one.

    To collect all files takes 20 s, mostly for imports, and few files have tests that run alone.
    """
    return path.startswith(NO_UNITS) or bool(_NO_UNIT.search(text))


def is_apart(path: str, kind: str, *, is_slow: bool) -> bool:
    """Return True if such a test may run beside another one, although it is no unit. No slow test may."""
    return kind == "e2e" and not is_slow and path.startswith(APART)


def kind_of(path: str, marked: Iterable[str], fixtures: Collection[str]) -> str:
    """Return the kind of a test by its markers, fixtures or folder. Raises ValueError if they contradict each other."""
    by_marker = [kind for kind in KINDS if kind in set(marked)]
    if len(by_marker) > 1:
        raise ValueError(f"it is marked as {' and '.join(by_marker)}: a test has one of {', '.join(KINDS)}")
    by_fixture = [kind for name, kind in KIND_BY_FIXTURE.items() if name in fixtures]
    by_folder = [kind for folder, kind in KIND_BY_FOLDER.items() if path.startswith(f"{folder}/")]
    if by_marker == ["unit"] and (by_fixture or by_folder):
        raise ValueError("it is marked as unit and starts a rank: see tests/kinds.py")
    return next(iter((*by_marker, *by_fixture, *by_folder)), "unit")
