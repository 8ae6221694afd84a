"""Tests of a session of random plays: it leaves out plays that are done, and a row has what was published later."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from lab.drills import random_session
from lab.drills.compositions import compose_drill
from lab.drills.random_session import play_random
from lab.stage import Shown
from tests.lab.drills.build import ROW

SEED = 3
SHOWN = Shown("1", "stall", "rank_frozen", "critical", (0,), ("node-a",), 900.0, 0.9)
AFTERWARDS = Shown("2", "stall", "rank_exited", "critical", (0,), ("node-a",), 1000.0, 0.9)
PLAYED = replace(ROW, drill="kill+stop", time=500.0, shown=(SHOWN,))
# The event after which zmon has published a finding about the end of a job.
PUBLISHED_AFTER = {"drill-2": "play 4", "drill-4": "wait"}


@pytest.fixture
def rows(monkeypatch, tmp_path):
    """The rows of plays 2 and 4 of five, on a stage that publishes the end of a job later than the play."""
    events = []

    def published(job_id):
        return (SHOWN, AFTERWARDS) if PUBLISHED_AFTER[job_id] in events else (SHOWN,)

    def play(drill, stage, draw):
        events.append(f"play {draw.repeat}")
        return replace(PLAYED, repeat=draw.repeat, job=f"drill-{draw.repeat}")

    @contextmanager
    def stage(name, folder, policy):
        yield SimpleNamespace(policy=policy, published=published)

    monkeypatch.setattr(random_session, "open_stage", stage)
    monkeypatch.setattr(random_session.time, "sleep", lambda seconds: events.append("wait"))
    monkeypatch.setattr(random_session, "play", play)
    rows = []
    truth = tmp_path / "truth.jsonl"
    play_random(seed=SEED, num_plays=5, done={0, 1, 3}, folder=tmp_path, truth=truth, on_row=rows.append)
    return rows


def test_plays_that_are_done_are_left_out(rows):
    assert [row.repeat for row in rows] == [2, 4]


def test_row_has_the_launcher_of_its_composition(rows, tmp_path):
    assert [row.launcher for row in rows] == [compose_drill(SEED, n, tmp_path / "truth").launcher for n in (2, 4)]


def test_row_waits_for_what_is_published_about_the_end_of_its_job(rows):
    assert [row.afterwards for row in rows] == [(AFTERWARDS,), (AFTERWARDS,)]
