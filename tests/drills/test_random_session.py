"""Tests of the verdicts on random compositions of real jobs, and of slices that resume."""

from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from tests.drills.test_score import ROW
from zmon.drills import random_session
from zmon.drills.random_session import outcome, play_random

FAULT = replace(ROW, drill="kill+stop", rank=2, struck_too=(3,), reported_ranks=(2,), culprit_right=True)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "right"),
        ({"reported_ranks": (1,), "culprit_right": False}, "wrong name"),
        ({"reported_ranks": (3,), "culprit_right": False}, "wrong cause"),
        ({"reported_cause": "unknown", "reported_ranks": (), "culprit_right": False}, "unknown"),
        ({"reported_cause": None}, "silent"),
        ({"reported_cause": None, "proof": "steps"}, "missed"),
        ({"reported_cause": None, "max_restarts": 2}, "restarted"),
        ({"quiet": True, "paged": (), "warned": ("compute_hang",)}, "quiet"),
        ({"quiet": True, "paged": ("ZmonStall",)}, "false page"),
        ({"broken": "the job did not obey"}, "broken"),
    ],
)
def test_verdict(changes, verdict):
    assert outcome(replace(FAULT, **changes)).verdict == verdict


def test_fault_is_the_first_one():
    assert outcome(FAULT).fault == "kill"


def test_slice_leaves_out_what_was_played(monkeypatch, tmp_path):
    @contextmanager
    def stage(name, folder):
        yield None

    monkeypatch.setattr(random_session, "open_stage", stage)
    monkeypatch.setattr(random_session, "play", lambda drill, stage, draw: replace(FAULT, repeat=draw.repeat))
    rows = []
    play_random(3, 5, {0, 1, 3}, tmp_path, tmp_path / "truth.jsonl", rows.append)
    assert [row.repeat for row in rows] == [2, 4]
    assert all(row.launcher for row in rows)
