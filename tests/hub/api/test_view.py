"""Tests of the view of a job: its state in one word, and the source of its samples, the least certain of its ranks."""

from pathlib import Path

import pytest

from tests.build import finding, killed, rank_state, snapshot
from zmon.hub.api.view import job_state, view
from zmon.hub.job_state import JobStates


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (("declared", "declared"), "declared"),
        (("declared", "loader"), "loader"),
        (("model", "loader"), "model"),
        (("loader", ""), ""),
        (("loader", "newer"), "newer"),  # only a newer zmon knows it
    ],
)
def test_source_of_samples_is_the_least_certain_of_the_ranks(tmp_path: Path, sources, expected):
    ranks = [rank_state(rank, samples_source=source) for rank, source in enumerate(sources)]
    assert view(snapshot(*ranks), JobStates(tmp_path), []).samples_source == expected


@pytest.mark.parametrize(
    ("activities", "expected"),
    [
        (["train"] * 4, "train"),
        (["init", "init", "init", "train"], "init"),
        (["eval"] * 4, "eval"),
        (["done"] * 4, "done"),
        (["done", "done", "done", "train"], "train"),
    ],
)
def test_state_of_a_job_is_the_activity_of_most_ranks(activities, expected):
    ranks = [rank_state(rank, activity=activity) for rank, activity in enumerate(activities)]
    assert job_state(snapshot(*ranks), []) == expected


def test_job_has_exited_after_all_its_ranks_ended():
    assert job_state(snapshot(*map(killed, range(4))), []) == "exited"


@pytest.mark.parametrize(("lives", "expected"), [(True, "done"), (False, "exited")])
def test_job_is_done_while_a_finished_rank_hangs_in_its_exit(lives, expected):
    ranks = [rank_state(rank, activity="done", alive=lives and rank == 3) for rank in range(4)]
    assert job_state(snapshot(*ranks), [finding(cause="compute_hang")]) == expected


@pytest.mark.parametrize(("severity", "expected"), [("critical", "stalled"), ("warning", "stalled"), ("info", "train")])
def test_pause_that_is_ordinary_for_the_job_is_part_of_its_activity(severity, expected):
    stall = finding(severity=severity, cause="input_stall")
    assert job_state(snapshot(*map(rank_state, range(4))), [stall]) == expected
