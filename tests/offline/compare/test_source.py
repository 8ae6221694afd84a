"""Tests of the sources of a comparison. Steps are read from a file, a directory or a job, in full or in part."""

import pytest

from tests.offline.analyze.logs import rows, written
from tests.steplog.build import append_once, rank_box
from tests.steps import by_step
from zmon.errors import UsageError
from zmon.offline.compare import series, steps_of


@pytest.fixture
def log(tmp_path):
    """The path of a step log: 20 steps of two ranks."""
    return written(tmp_path / "a.jsonl", rows(steps=20, ranks=2, seconds=1.0))


@pytest.fixture
def data(tmp_path):
    """The data directory of an agent that logged the job `job`: five steps of two ranks, with a loss."""
    for rank in range(2):
        box = rank_box(tmp_path / "boxes", rank)
        box.ledger.report({"loss": 0.5}, 1)
        box.steps(5)
        append_once(tmp_path / "data/steps", box)
    return tmp_path / "data"


def numbers(log):
    """Return the numbers of the steps of each rank."""
    return {rank: list(steps) for (_, rank), steps in by_step(log).items()}


def test_steps_are_read_from_a_directory_of_files(tmp_path):
    table = list(rows(steps=3, ranks=4))
    for host in ("node-0", "node-1"):
        written(tmp_path / f"{host}.jsonl", [row for row in table if row["host"] == host])
    (tmp_path / "README.txt").write_text("not a log")
    assert sorted(numbers(steps_of(str(tmp_path), tmp_path))) == [0, 1, 2, 3]


def test_steps_are_read_from_the_log_of_the_agent(data):
    log = steps_of("job", data)
    assert numbers(log) == {0: [1, 2, 3, 4, 5], 1: [1, 2, 3, 4, 5]}
    assert by_step(log)[0, 0][1].start > 1_700_000_000  # unix seconds
    assert series("job", log).gauges["loss"]


def test_steps_of_a_file_or_a_job_are_selected_by_number(log, data, tmp_path):
    assert numbers(steps_of(f"{log}@5..7", tmp_path))[0] == [5, 6, 7]
    assert numbers(steps_of(f"{log}@..2", tmp_path))[0] == [1, 2]
    assert numbers(steps_of(f"{log}@19..", tmp_path))[0] == [19, 20]
    assert numbers(steps_of("job@2..3", data))[1] == [2, 3]


def test_gauges_are_those_of_the_selected_steps(tmp_path):
    log = written(tmp_path / "a.jsonl", [{**row, "report_loss": row["step"] / 10} for row in rows(steps=9, ranks=1)])
    assert steps_of(f"{log}@5..6", tmp_path).reported == {(0, 0): {5: {"loss": 0.5}, 6: {"loss": 0.6}}}


def test_steps_of_a_file_are_selected_by_time(tmp_path):
    table = [{**row, "start": 1_800_000_000.0 + 60 * row["step"]} for row in rows(steps=20, ranks=2)]
    log = written(tmp_path / "a.jsonl", table)
    begin, end = "2027-01-15T08:05:00+00:00", "2027-01-15T08:07:30+00:00"  # 1.8e9 is 08:00
    assert numbers(steps_of(f"{log}@{begin}..{end}", tmp_path))[0] == [5, 6, 7]
    assert numbers(steps_of(f"{log}@..{begin}", tmp_path))[0] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("50..60", r"no steps in .*@50\.\.60: it has steps 1 to 20"),
        *(
            (edges, r"cannot read the range .* Write steps as …@500\.\.2000, times as …@2026")
            for edges in ("x..y", "5..noon", "2026-11-31T00:00..")
        ),
    ],
)
def test_range_without_steps_is_refused(log, tmp_path, edges, message):
    with pytest.raises(UsageError, match=message):
        steps_of(f"{log}@{edges}", tmp_path)


def test_unknown_job_is_refused_with_the_jobs_of_the_log(data):
    with pytest.raises(UsageError, match=r"there is no file jbo, and no job with this ID in .*: it has the jobs job"):
        steps_of("jbo", data)
    with pytest.raises(UsageError, match="it has no jobs"):
        steps_of("job", data / "elsewhere")
    with pytest.raises(UsageError, match=r"the directory has no \.parquet or \.jsonl file"):
        steps_of(str(data), data)


def test_job_without_two_complete_steps_is_refused(tmp_path):
    box = rank_box(tmp_path / "boxes")
    box.steps(0)
    box.timeline.turn_to(1)
    append_once(tmp_path / "data/steps", box)
    with pytest.raises(UsageError, match="no rank has completed two steps yet"):
        steps_of("job", tmp_path / "data")


def test_second_launch_with_the_same_id_and_attempt_is_separate(tmp_path):
    for run, steps in ((0, 9), (1, 4)):
        for rank in range(2):
            box = rank_box(tmp_path / "boxes", rank, run)
            box.steps(steps)
            append_once(tmp_path / "data/steps", box)
    log = steps_of("job", tmp_path / "data")
    assert log.attempts() == [0, 1]
    assert {key: len(steps) for key, steps in by_step(log).items()} == {(0, 0): 9, (0, 1): 9, (1, 0): 4, (1, 1): 4}


@pytest.mark.parametrize("lost", [0, 1])
def test_launch_without_the_steps_of_a_rank_is_not_mixed_with_the_next_one(tmp_path, lost):
    """The agent deletes the oldest files; and a rank that fails early has written none."""
    for run in range(3):
        for rank in {0, 1} - ({lost} if run == 1 else set()):
            box = rank_box(tmp_path / "boxes", rank, run, start_unix=1.7e9 + 60 * run + rank)
            box.steps(5 + run)
            append_once(tmp_path / "data/steps", box)
    steps = {key: len(of_rank) for key, of_rank in by_step(steps_of("job", tmp_path / "data")).items()}
    assert steps == {(0, 0): 5, (0, 1): 5, (1, 1 - lost): 6, (2, 0): 7, (2, 1): 7}


def test_directory_with_several_jobs_is_refused_without_a_choice(tmp_path):
    for job in ("one", "other"):
        written(tmp_path / f"{job}.jsonl", [{**row, "job_id": job} for row in rows(steps=3, ranks=2)])
    with pytest.raises(UsageError, match="Choose one with --job"):
        steps_of(str(tmp_path), tmp_path)
    assert steps_of(str(tmp_path), tmp_path, "other").job_id == "other"
