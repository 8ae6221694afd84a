"""Tests of slices of random compositions that resume."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from lab.drills import random_session
from lab.drills.random_session import play_random
from lab.stage import Shown
from tests.lab.drills.test_score import ROW

FAULT = replace(ROW, drill="kill+stop", time=500.0)
AFTERWARDS = Shown("1", "stall", "rank_exited", "critical", (0,), ("node-a",), 1000.0, 0.9)


@pytest.fixture
def rows(monkeypatch, tmp_path):
    @contextmanager
    def stage(name, folder, policy):
        yield SimpleNamespace(policy=policy, published=lambda job_id: (AFTERWARDS,) if job_id == "drill-2" else ())

    monkeypatch.setattr(random_session, "open_stage", stage)
    monkeypatch.setattr(random_session.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(
        random_session,
        "play",
        lambda drill, stage, draw: replace(FAULT, repeat=draw.repeat, job=f"drill-{draw.repeat}"),
    )
    rows = []
    play_random(3, 5, {0, 1, 3}, tmp_path, tmp_path / "truth.jsonl", rows.append)
    return rows


def test_slice_leaves_out_what_was_played(rows):
    assert [row.repeat for row in rows] == [2, 4]
    assert all(row.launcher for row in rows)


def test_row_has_what_was_published_about_the_end_of_its_job(rows):
    assert [row.afterwards for row in rows] == [(AFTERWARDS,), ()]
