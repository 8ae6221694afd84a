"""Tests of writing the step log: ranks that end, restarts of the agent, and full disks."""

import os
import resource
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.steplog.build import (
    append_once,
    grow,
    inodes,
    logged,
    rank_box,
    records,
    ring_records,
    segments,
    step_numbers,
)
from zmon.box import layout
from zmon.box.versions import CURRENT
from zmon.errors import ZmonError
from zmon.steplog import read_runs


def steps_of(root, *ranks):
    """Return the step numbers of each run in the log, or of the runs of these ranks."""
    return [step_numbers(run) for run in logged(root) if not ranks or run.run.rank in ranks]


def up_to(last):
    """Return the numbers of the steps up to this one."""
    return list(range(1, last + 1))


def test_steps_in_the_log_equal_those_in_the_box(tmp_path, root, log):
    boxes = [rank_box(tmp_path / "boxes", rank) for rank in range(3)]
    for number in range(5):
        for box in boxes:
            box.steps(7 + number, seconds=0.003 * (number + 1))
        assert log.append(inodes(*boxes)) == ()
    for box, run in zip(boxes, logged(root), strict=True):
        assert records(run) == ring_records(box)
        assert len(ring_records(box)) == 45
        assert (run.missing, run.missing_before, run.damaged) == (0, 0, [])
        assert run.run.host == "node-a"


def test_log_is_private_to_the_user_of_the_agent_even_if_its_folder_was_not(box, root, log):
    """An earlier version made a folder in which all users could read the steps and labels of every job."""
    root.mkdir(parents=True)
    root.chmod(0o755)
    box.steps(3)
    log.append(inodes(box))
    (segment,) = segments(root)
    modes = [oct(path.stat().st_mode & 0o777) for path in (root, segment.parent, segment)]
    assert modes == ["0o700", "0o700", "0o600"]


def test_append_without_new_steps_writes_nothing(box, root, log):
    grow(log, box, 3)
    content = segments(root)[0].read_bytes()
    log.append(inodes(box))
    log.append(inodes(box))
    assert [path.read_bytes() for path in segments(root)] == [content]


def test_overwritten_steps_are_counted_as_missing(box, root, log):
    grow(log, box, 10)
    grow(log, box, layout.RING_CAPACITY + 100)
    last = 10 + layout.RING_CAPACITY + 100
    (run,) = logged(root)
    numbers = step_numbers(run)
    assert numbers[:10] == up_to(10)
    assert numbers[10:] == list(range(last - len(numbers) + 11, last + 1))
    assert run.missing == last - len(numbers)
    assert all(record.duration == pytest.approx(0.020, abs=1e-6) for record in records(run))


def test_steps_overwritten_before_the_agent_started_are_counted(box, root):
    """The rank may have died without an agent."""
    last = layout.RING_CAPACITY + 100
    box.steps(last)
    append_once(root, box)
    (run,) = logged(root)
    numbers = step_numbers(run)
    assert (numbers[-1], run.missing_before, run.missing) == (last, last - len(numbers), 0)


def test_damaged_boundary_in_the_ring_loses_its_step_and_the_next(box, root, log):
    box.steps(10)
    box.flip(CURRENT.ring + 6 * CURRENT.boundary_size + 200)
    log.append(inodes(box))
    (run,) = logged(root)
    numbers = step_numbers(run)
    assert len(numbers) == 8
    assert run.missing == 2


def test_last_steps_of_a_rank_with_a_deleted_box_are_written(box, root, log):
    grow(log, box, 5)
    box.steps(5)
    box.path.unlink()
    log.append({})
    assert steps_of(root) == [up_to(10)]


def test_new_run_at_the_same_box_path_has_a_file_of_its_own(tmp_path, root, log):
    old = rank_box(tmp_path / "boxes")
    old.steps(5)
    log.append(inodes(old))
    old.steps(5)
    new = rank_box(tmp_path / "boxes", run=1)
    new.steps(3)
    log.append(inodes(new))
    assert steps_of(root) == [up_to(10), up_to(3)]
    assert len(segments(root)) == 2


def test_damaged_box_is_reported_and_others_are_written(tmp_path, root, log):
    boxes = [rank_box(tmp_path / "boxes", rank) for rank in range(3)]
    for box in boxes:
        box.steps(4)
    boxes[1].overwrite(0, b"no box at all")
    unread = log.append(inodes(*boxes))
    assert [str(boxes[1].path) in line for line in unread] == [True]
    assert steps_of(root, 0, 2) == [up_to(4), up_to(4)]


def test_box_that_vanished_after_the_listing_is_no_error(tmp_path, root, log):
    boxes = [rank_box(tmp_path / "boxes", rank) for rank in range(2)]
    for box in boxes:
        box.steps(4)
    inode_by_path = inodes(*boxes)
    boxes[0].path.unlink()
    assert log.append(inode_by_path) == ()
    assert steps_of(root) == [up_to(4)]


def test_restarted_agent_writes_each_step_once(box, root):
    for _ in range(3):
        box.steps(600)
        append_once(root, box)
    assert steps_of(root) == [up_to(1800)]
    assert len(segments(root)) == 1


def test_agent_killed_during_a_write_leaves_complete_blocks(box, root):
    box.steps(5)
    append_once(root, box)
    (path,) = segments(root)
    whole = path.stat().st_size
    box.steps(5)
    append_once(root, box)
    content = path.read_bytes()
    for end in range(whole, len(content)):
        path.write_bytes(content[:end])
        (run,) = logged(root)
        assert (step_numbers(run), run.damaged) == (up_to(5), [])
    for end in range(whole, len(content), 50):
        path.write_bytes(content[:end])
        append_once(root, box)
        assert path.read_bytes() == content


def test_file_cut_off_by_a_kill_is_completed_by_the_next_agent(box, root):
    box.steps(5)
    append_once(root, box)
    (path,) = segments(root)
    content = path.read_bytes()
    for end in range(0, len(content), 50):
        path.write_bytes(content[:end])
        append_once(root, box)
        assert path.read_bytes() == content


@pytest.mark.parametrize("offset", [8, 30], ids=["version", "identity"])  # of a byte in the header
def test_segment_of_another_version_is_kept_and_reported(box, root, offset):
    box.steps(5)
    append_once(root, box)
    (path,) = segments(root)
    content = bytearray(path.read_bytes())
    content[offset] ^= 7
    path.write_bytes(content)
    for _ in range(2):
        append_once(root, box)
    unusable_path = path.with_name(path.name.replace(".steps", ".unusable.steps"))
    is_kept = {segment: segment.read_bytes() == content for segment in segments(root)}
    assert is_kept == {path: False, unusable_path: True}
    runs, unusable = read_runs(path.parent)
    assert ([step_numbers(run) for run in runs], len(unusable)) == ([up_to(5)], 1)
    assert str(unusable_path) in unusable[0]


@contextmanager
def full_disk(num_bytes):
    """Limit the size of all files: as on a full disk, the kernel writes what fits and refuses the rest."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("spare", [0, 30, 100])
def test_full_disk_is_reported_and_writing_continues_once_space_is_free(box, root, log, spare):
    grow(log, box, 20)
    (path,) = segments(root)
    content = path.read_bytes()
    box.steps(20)
    for _ in range(2):
        message = f"cannot write the step log {root}"
        with full_disk(len(content) + spare), pytest.raises(ZmonError, match=message) as refused:
            log.append(inodes(box))
        assert "\n" not in str(refused.value)
        assert path.read_bytes() == content
    log.append(inodes(box))
    assert steps_of(root) == [up_to(40)]


def test_full_disk_leaves_no_partial_new_file(box, root, log):
    box.steps(20)
    for _ in range(3):
        with full_disk(300), pytest.raises(ZmonError):
            log.append(inodes(box))
        box.steps(5)
    assert segments(root) == []
    log.append(inodes(box))
    assert steps_of(root) == [up_to(35)]


def test_folder_that_cannot_be_created_is_reported(box, tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ZmonError, match="Not a directory"):
        append_once(tmp_path / "data/steps", box)


def open_descriptors(path):
    """Return the descriptors of this process that refer to a file."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link for link in links if os.path.realpath(link) == str(path)]


def test_closed_log_leaves_no_box_open(box, root):
    box.steps(5)
    before = len(open_descriptors(box.path))
    append_once(root, box)
    assert len(open_descriptors(box.path)) == before
