"""Tests of the list of detectors: their thresholds have units, and each of their causes has a runbook."""

import re
from dataclasses import fields

import pytest

from tests.places import REPOSITORY
from zmon.detectors import ALL

ENDINGS = (
    "connection_loss", "crash_loop", "launcher", "rendezvous", "rules", "signals", "size_mismatch",
    "uneven_end",
)  # fmt: skip
HANGS = ("diagnosis", "different_paths", "frozen", "rules", "sequence_lag")
FILES = {  # detector → files with its causes
    "stall": (*(f"endings/{file}" for file in ENDINGS), *(f"hangs/{file}" for file in HANGS)),
    "straggler": ("slow/straggler", "slow/exposed_time"),
    "imbalance": ("slow/skew", "slow/uneven_steps", "slow/stages"),
    "slowdown": ("slow/slowdown",),
    "efficiency": ("slow/efficiency",),
    "input_bound": ("slow/input_bound",),
}
HEADINGS = set(re.findall(r"^## (.+)$", (REPOSITORY / "docs/runbooks.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("detector", ALL, ids=lambda detector: detector.name)
def test_thresholds_are_numbers_with_their_unit(detector):
    assert fields(detector)
    for threshold in fields(detector):
        if threshold.name.startswith("num_"):
            assert isinstance(threshold.default, int)
        else:
            assert threshold.name.endswith(("_seconds", "_per_second", "_ratio"))
            assert isinstance(threshold.default, float)


@pytest.mark.parametrize("detector", ALL, ids=lambda detector: detector.name)
def test_causes_of_a_detector_are_listed_and_have_a_runbook(detector):
    files = FILES.get(detector.name, (detector.name,))
    source = "\n".join((REPOSITORY / f"zmon/detectors/{file}.py").read_text() for file in files)
    lines = re.findall(r"(?:cause=|yield |return )(.+),", source)
    causes = {cause for line in lines for cause in re.findall(r'"(\w+)"', line)}
    assert causes == set(detector.causes)
    assert causes <= HEADINGS
