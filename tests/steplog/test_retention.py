"""Tests of the limits of the step log. The oldest segments are deleted first, but none that a rank writes to."""

import os
import shutil
import time

import pytest

from tests.steplog.build import grow, inodes, logged, rank_box, segments, step_numbers
from zmon.steplog import StepLog
from zmon.steplog.files import SteadyClock
from zmon.steplog.writer import PRUNE_SECONDS, SMALLEST_BYTES


class Wall:
    """A wall clock that the test moves."""

    def __init__(self):
        self.now = time.time()

    def __call__(self):
        return self.now


@pytest.fixture
def wall():
    """Return a wall clock that the test moves."""
    return Wall()


@pytest.fixture
def new_log(root, wall):
    """Return a function that makes a log with given limits; the logs are closed after the test."""
    logs = []

    def make(**bounds):
        logs.append(StepLog(root, "node-a", clock=wall, steady=SteadyClock(wall, hold_seconds=0.0), **bounds))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


def old_segment(root, job, age, wall, size=10):
    """Make a segment of a run that ended `age` seconds ago; its content does not matter."""
    path = root / job / f"0-rank-0-{age:08x}.000000000001.steps"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (wall.now - age, wall.now - age))
    return path


def test_no_step_is_lost_between_segments(tmp_path, root, new_log):
    log, box = new_log(segment_bytes=2000), rank_box(tmp_path)
    for _ in range(10):
        grow(log, box, 50)
    assert len(segments(root)) > 3
    (run,) = logged(root)
    assert step_numbers(run) == list(range(1, 501))


def test_segment_can_be_read_without_the_previous_segment(tmp_path, root, new_log):
    log, box = new_log(segment_bytes=2000), rank_box(tmp_path)
    for _ in range(10):
        grow(log, box, 50)
    segments(root)[0].unlink()
    (run,) = logged(root)
    numbers = step_numbers(run)
    assert numbers == list(range(500 - len(numbers) + 1, 501))
    assert (run.missing_before, run.missing) == (500 - len(numbers), 0)
    segments(root)[1].unlink()
    (run,) = logged(root)
    numbers = step_numbers(run)  # reading the steps counts the missing ones
    assert run.missing + run.missing_before + len(numbers) == 500
    assert run.missing > 0


def test_restarted_agents_lose_no_step(tmp_path, root, new_log):
    box = rank_box(tmp_path)
    for _ in range(10):
        box.steps(50)
        new_log(segment_bytes=2000).append(inodes(box))
    (run,) = logged(root)
    assert step_numbers(run) == list(range(1, 501))


def test_oldest_segments_of_all_jobs_are_deleted_above_the_limit(tmp_path, root, new_log, wall):
    paths = {age: old_segment(root, f"job-{age % 2}", age, wall, SMALLEST_BYTES) for age in (50, 300, 201, 100, 401)}
    new_log(limit_bytes=3 * SMALLEST_BYTES).append({})
    assert sorted(age for age, path in paths.items() if path.exists()) == [50, 100, 201]


def test_number_of_small_segments_is_limited(root, new_log, wall):
    paths = [old_segment(root, f"job-{age}", age, wall) for age in range(1, 101)]
    new_log(limit_bytes=10 * SMALLEST_BYTES).append({})
    assert [path.exists() for path in paths] == [True] * 10 + [False] * 90


def test_segment_that_a_rank_writes_to_is_not_deleted(tmp_path, root, new_log, wall):
    log, box = new_log(limit_bytes=2 * SMALLEST_BYTES), rank_box(tmp_path)
    grow(log, box, 5)
    (segment,) = segments(root)
    os.utime(segment, (wall.now - 1000, wall.now - 1000))  # the rank has been in an evaluation since then
    of_large_job = [old_segment(root, "large", age, wall, 10 * SMALLEST_BYTES) for age in (1, 2)]
    wall.now += PRUNE_SECONDS + 1
    log.append(inodes(box))
    assert [segment.exists(), *(path.exists() for path in of_large_job)] == [True, False, False]


def test_old_segment_is_deleted_with_its_empty_folder(root, new_log, wall):
    old, young = old_segment(root, "old", 101, wall), old_segment(root, "young", 99, wall)
    new_log(max_age_seconds=100).append({})
    assert not old.parent.exists()
    assert young.exists()


def test_segment_that_becomes_old_is_deleted_at_runtime(root, new_log, wall):
    path = old_segment(root, "job", 1, wall)
    log = new_log(max_age_seconds=100)
    log.append({})
    wall.now += 98
    log.append({})
    assert path.exists()
    wall.now += PRUNE_SECONDS + 1
    log.append({})
    assert not path.exists()


def test_other_files_are_not_deleted(root, new_log, wall):
    old_segment(root, "job", 1000, wall)
    for name in ("job/notes.txt", "stray.steps"):
        (root / name).write_text("mine")
        os.utime(root / name, (0, 0))
    elsewhere = old_segment(root.parent / "elsewhere", "job", 1000, wall)
    (root / "link").symlink_to(elsewhere.parent)
    new_log(max_age_seconds=100).append({})
    assert sorted(path.name for path in root.rglob("*")) == ["job", "link", "notes.txt", "stray.steps"]
    assert elsewhere.exists()


def test_append_without_boxes_creates_no_folder(root, new_log):
    assert new_log().append({}) == ()
    assert not root.exists()


def test_log_continues_after_its_folder_was_deleted(tmp_path, root, new_log, wall):
    log, box = new_log(max_age_seconds=100), rank_box(tmp_path)
    grow(log, box, 5)
    shutil.rmtree(root.parent)
    wall.now += 1000
    grow(log, box, 5)
    (run,) = logged(root)
    assert step_numbers(run) == [6, 7, 8, 9, 10]
    assert run.missing_before == 5
