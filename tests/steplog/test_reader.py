"""Tests of reading a step log. Damage loses the affected steps, is reported, and never invents a step."""

import math
import random
import struct

import pytest

from tests.steplog.build import append_once, grow, logged, rank_box, records, reports, segments, step_numbers
from zmon.box.versions import CURRENT
from zmon.errors import ZmonError
from zmon.probe.rank import EVAL, TRAIN
from zmon.steplog import StepLog, format, read_runs, reader


@pytest.fixture
def path(box, log, root):
    """Return a segment of ten blocks of ten steps."""
    for _ in range(10):
        grow(log, box, 10)
    return segments(root)[0]


def spans(path):
    """Return the offsets at which each block of a segment begins and ends."""
    data = path.read_bytes()
    _, offset = format.read_header(data)
    ends = [block.end for block in format.blocks(data, offset)]
    return list(zip([offset, *ends], ends, strict=False))


def overwrite(path, offset, data):
    """Overwrite bytes of a segment."""
    content = bytearray(path.read_bytes())
    content[offset : offset + len(data)] = data
    path.write_bytes(content)


def test_step_starts_in_unix_time_at_the_end_of_the_previous_step(box, root, monkeypatch):
    offset = 1_800_000_000_000_000_000
    monkeypatch.setattr("time.time_ns", lambda: offset + box.clock.ns)
    begin = (offset + box.clock.ns) * 1e-9
    box.steps(3, seconds=0.5)
    append_once(root, box)
    (run,) = logged(root)
    assert [record.start for record in records(run)] == pytest.approx([begin, begin + 0.5, begin + 1.0], abs=1e-3)


def test_runs_are_sorted_by_attempt_rank_and_start(tmp_path, root):
    for attempt, rank, run in ((1, 0, 0), (0, 10, 0), (0, 2, 1), (0, 2, 0)):
        box = rank_box(tmp_path / "boxes", rank, run, attempt=attempt)
        box.steps(2)
        append_once(root, box)
    order = [(steps.run.attempt, steps.run.rank, steps.run.run_uid[:2]) for steps in logged(root)]
    assert order == [(0, 2, "00"), (0, 2, "01"), (0, 10, "00"), (1, 0, "00")]


def test_changes_of_activity_are_neither_steps_nor_gaps(box, root):
    box.steps(2)
    box.timeline.turn_to(EVAL)
    box.clock.sleep(100)
    box.timeline.turn_to(TRAIN)
    box.steps(2)
    append_once(root, box)
    (run,) = logged(root)
    assert [record.duration for record in records(run)] == pytest.approx([0.020] * 4, abs=1e-6)
    assert (run.missing, run.missing_before) == (0, 0)


@pytest.mark.parametrize("chunk_rows", [1, 2, 4096])
def test_each_reported_gauge_is_assigned_to_a_step(box, root, monkeypatch, chunk_rows):
    monkeypatch.setattr(reader, "_CHUNK_ROWS", chunk_rows)
    box.ledger.report({"loss": 0.5}, 1)
    box.steps(2)
    box.ledger.report({"loss": 0.4}, 1)
    box.timeline.turn_to(EVAL)
    box.ledger.report({"auc": 0.7}, 1)
    box.timeline.turn_to(TRAIN)
    box.steps(1)
    box.ledger.report({"loss": float("nan")}, 1)
    box.steps(1)
    append_once(root, box)
    (run,) = logged(root)
    *others, last = zip(step_numbers(run), reports(run), strict=True)
    assert others == [(1, {"loss": 0.5}), (2, {"loss": 0.4, "auc": 0.7}), (3, {})]
    assert math.isnan(last[1]["loss"])


def test_gauges_with_equal_shortened_names_do_not_affect_others(box, root):
    box.ledger.report({f"a_very_long_name_of_a_gauge_for_{table}": 1.0 for table in ("a", "b")} | {"loss": 3.0}, 1)
    box.steps(1)
    append_once(root, box)
    (reported,) = reports(logged(root)[0])
    assert reported["loss"] == 3.0


def test_gauge_first_reported_later_has_the_right_name(tmp_path, root):
    box, log = rank_box(tmp_path / "boxes"), StepLog(root, "node-a")
    for step, gauges in enumerate(({"loss": 0.5}, {"auc": 0.7}, {"loss": 0.4}), 1):
        box.ledger.report(gauges, 1)
        grow(log, box, 1)
        if step == 2:  # then another agent continues
            log.close()
            log = StepLog(root, "node-a")
    log.close()
    (run,) = logged(root)
    assert reports(run) == [{"loss": 0.5}, {"auc": 0.7}, {"loss": 0.4}]
    assert len(segments(root)) == 2
    assert run.missing == 0


def test_block_written_during_the_read_is_not_damage(box, log, root):
    grow(log, box, 10)
    (run,) = logged(root)
    grow(log, box, 10)
    assert (len(step_numbers(run)), run.damaged) == (10, [])


def test_segment_deleted_during_the_read_has_no_steps(path, root):
    (run,) = logged(root)
    path.unlink()
    assert step_numbers(run) == []
    assert [*run.columns()] == []


@pytest.mark.parametrize("hit", [0, 4, 9])
@pytest.mark.parametrize("byte", ["first", "size", "count", "body", "last"])
def test_damaged_block_loses_its_steps_and_the_next_and_is_reported(path, root, hit, byte):
    begin, end = spans(path)[hit]
    # The first byte, the highest byte of the size, a high byte of the count, and two bytes of the body.
    offset = {"first": begin, "size": begin + 7, "count": begin + 18, "body": begin + 40, "last": end - 1}[byte]
    overwrite(path, offset, bytes([path.read_bytes()[offset] ^ 0x55]))
    (run,) = logged(root)
    numbers = step_numbers(run)
    cut_off = hit == 9 and byte == "size"  # a last block whose size is too large looks like a half-written one
    assert [str(path) in line and "damaged in 1 place" in line for line in run.damaged] == [True] * (not cut_off)
    lost = 10 if hit == 9 else 11
    assert len(numbers) == 100 - lost
    assert run.missing + run.missing_before == (0 if hit == 9 else lost)


def test_foreign_bytes_lose_only_the_overwritten_blocks(path, root):
    (_, begin), (end, _) = spans(path)[2], spans(path)[5]
    overwrite(path, begin - 5, b"ZBLK" * ((end - begin + 10) // 4))
    (run,) = logged(root)
    numbers = step_numbers(run)
    assert 100 > len(numbers) >= 100 - 10 * 4 - 1
    assert run.missing == 100 - len(numbers)


def test_random_damage_neither_invents_a_step_nor_raises(path, root):
    (run,) = logged(root)
    true = {record.step: record for record in records(run)}
    content = path.read_bytes()
    dice = random.Random(4)
    num_read = 0
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(dice.choice([1, 3, 30])):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        if dice.random() < 0.3:
            start = dice.randrange(len(damaged))
            del damaged[start : start + dice.randrange(1, 500)]
        path.write_bytes(damaged)
        runs, _ = read_runs(root / "job")
        for run in runs:
            steps = records(run)
            assert all(true[record.step] == record for record in steps)
            assert len({record.step for record in steps}) == len(steps)
            run.columns()
            num_read += len(steps)
    assert num_read > 300 * 10  # most damage leaves most blocks readable


@pytest.mark.parametrize(
    ("offset", "data", "reason"),
    [
        pytest.param(0, b"PARQUET!", "it is not a step log", id="magic"),
        pytest.param(8, struct.pack("<I", 99), "another version", id="version of the step log"),
        pytest.param(12, struct.pack("<I", CURRENT.version + 1), "another version", id="version of the box"),
        pytest.param(16, struct.pack("<I", 1 << 31), "its header is damaged", id="size of the identity"),
        pytest.param(30, b"\xff", "its header is damaged", id="identity"),
    ],
)
def test_segment_with_an_unusable_header_is_reported_and_skipped(tmp_path, path, root, offset, data, reason):
    box = rank_box(tmp_path / "boxes", rank=1)
    box.steps(3)
    append_once(root, box)
    overwrite(path, offset, data)
    runs, unusable = read_runs(root / "job")
    assert [step_numbers(run) for run in runs] == [[1, 2, 3]]
    (line,) = unusable
    assert str(path) in line
    assert reason in line


def test_packed_header_is_read_back():
    run = format.Run("dlrm-17", 2, 5, "ab" * 16, "node-a", 1_700_000_000.5, 12345)
    decoded, end = format.read_header(format.pack_header(run) + b"rest")
    assert decoded == run
    assert end == len(format.pack_header(run))


def test_empty_file_is_refused():
    with pytest.raises(ZmonError, match="not a step log"):
        format.read_header(b"")
