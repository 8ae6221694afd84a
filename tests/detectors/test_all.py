"""Tests of the list of detectors: names, thresholds with units, causes with runbooks, and independent modules."""

import re
from dataclasses import fields

import pytest

from tests.places import REPOSITORY
from zmon.detectors import ALL
from zmon.detectors.unread import Unread

STALL_PARTS = (
    "cancellation", "connection_loss", "crash_loop", "diagnosis", "exits", "launcher", "rendezvous", "sequence_lag",
    "uneven_end",
)  # fmt: skip
FILES = {  # detector → files with its causes
    "stall": ("stall", *(f"parts/{part}" for part in STALL_PARTS)),
    "straggler": ("straggler", "parts/slow_network_finding"),
    "imbalance": ("imbalance", "parts/uneven_steps", "parts/stages"),
}
HEADINGS = set(re.findall(r"^## (.+)$", (REPOSITORY / "docs/runbooks.md").read_text(), re.MULTILINE))


def test_registered_detectors_have_the_expected_names_and_order():
    assert [detector.name for detector in ALL] == [
        "stall",
        "straggler",
        "imbalance",
        "slowdown",
        "efficiency",
        "input_bound",
        "divergence",
        "coverage",
        "hardware",
    ]


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


def test_every_file_of_the_room_is_a_detector():
    """`scripts/imports.py` keeps the files of the room independent of each other."""
    files = {f"zmon.detectors.{path.stem}" for path in (REPOSITORY / "zmon/detectors").glob("[!_]*.py")}
    detectors = {type(detector).__module__ for detector in (*ALL, Unread())}
    assert files == detectors | {"zmon.detectors.suppression"}
