"""Tests of a session of random plays that is resumed, and of rows that a later finding completes."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from lab.drills import random_session
from lab.drills.random_session import play_random
from lab.stage import Shown
from tests.lab.drills.build import ROW

FAULT = replace(ROW, drill="kill+stop", time=500.0)
AFTERWARDS = Shown("1", "stall", "rank_exited", "critical", (0,), ("node-a",), 1000.0, 0.9)


@pytest.fixture
def rows(monkeypatch, tmp_path):
    """The rows of plays 2 and 4 of five, on a stage that publishes a finding about the job of play 2."""

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
    truth = tmp_path / "truth.jsonl"
    play_random(seed=3, num_plays=5, done={0, 1, 3}, folder=tmp_path, truth=truth, on_row=rows.append)
    return rows


def test_plays_that_are_done_are_left_out(rows):
    assert [row.repeat for row in rows] == [2, 4]
    assert all(row.launcher for row in rows)


def test_row_has_what_was_published_about_the_end_of_its_job(rows):
    assert [row.afterwards for row in rows] == [(AFTERWARDS,), ()]
