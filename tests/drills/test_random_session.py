"""Tests of slices of random compositions that resume."""

from contextlib import contextmanager

from msgspec.structs import replace

from tests.drills.test_score import ROW
from zmon.drills import random_session
from zmon.drills.random_session import play_random

FAULT = replace(ROW, drill="kill+stop", job="drill-1", time=500.0)


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
