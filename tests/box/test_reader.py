"""Tests of the reader of a box, which returns the values that a rank wrote."""

import math
import time

import pytest

from tests.boxes import Box, read, read_part
from tests.steps import OpTotals
from zmon.box import layout
from zmon.probe.rank import ACTIVITY_NUMBER, EVAL, OP_NUMBER, PHASE_NUMBER
from zmon.schema.measures import UNKNOWN
from zmon.schema.names import ACTIVITIES, OPS, PHASES
from zmon.schema.rank import LastWords

MEMORY = slice(layout.MEMORY, layout.MEMORY + layout.NUM_MEMORY)


def append(box, data):
    """Append bytes to the file of a box, where a signal handler writes."""
    with box.path.open("ab") as file:
        file.write(data)


def test_missing_max_restarts_and_backend_are_unknown(tmp_path):
    identity = read(Box(tmp_path, identity={"max_restarts": None, "backend": None}))["identity"]
    assert identity.max_restarts is None
    assert identity.backend is None


def test_every_field_of_the_state_is_read(box):
    box.timeline.begin_step(41)
    begin = box.clock.ns
    box.clock.sleep(0.5)
    box.timeline.phase(PHASE_NUMBER["embedding"])
    box.clock.sleep(0.25)
    box.timeline.enter_op(OP_NUMBER["broadcast"], box.timeline.group("pg", 2), 4096, 96)
    now = read(box)["now"]
    assert now.since == begin + 750_000_000
    # The clock moves by a nanosecond at some readings.
    assert begin - 10 < now.activity_since == now.step_since <= begin
    assert (now.step, now.sequence, now.num_bytes) == (41, 1, 4192)
    assert (now.activity, now.phase, now.op, now.group) == ("train", "embedding", "broadcast", 0)


def test_state_outside_a_collective_has_no_op(box):
    now = read(box)["now"]
    assert (now.activity, now.op, now.group) == ("init", None, None)
    assert (now.num_bytes, now.sequence) == (0, 0)


def test_collective_of_a_group_without_number_has_no_sequence(box):
    box.timeline.begin_step(None)
    box.timeline.enter_op(OP_NUMBER["reduce"], layout.NONE, 8, 8)
    now = read(box)["now"]
    assert (now.op, now.group, now.sequence, now.num_bytes) == ("reduce", None, 0, 16)


def test_last_two_collectives_are_read_after_their_end_and_send_is_none_of_them(box):
    """If the peers notice an error first, the collective that failed may be the previous collective."""
    group, all_reduce = box.timeline.group("0", 2), OP_NUMBER["all_reduce"]
    assert read_part(box, "entered") == []
    for num_bytes in (10, 20, 30):
        box.timeline.enter_op(all_reduce, group, num_bytes, num_bytes)
        box.timeline.leave_op()
    assert read_part(box, "entered") == [(all_reduce, group, 3, 60), (all_reduce, group, 2, 40)]
    box.timeline.enter_op(OP_NUMBER["send"], group, 7, 0)
    assert (read(box)["now"].op, read(box)["now"].sequence) == ("send", 0)
    assert read_part(box, "entered") == [(all_reduce, group, 3, 60)]


@pytest.mark.parametrize(
    "count", [1, layout.SEQUENCES - 1, layout.SEQUENCES, layout.SEQUENCES + 1, 2 * layout.SEQUENCES, 10**9]
)
def test_sequence_is_restored_from_its_low_bits(box, count):
    group = box.timeline.group("0", 2)
    box.timeline.count_op(OP_NUMBER["all_reduce"], group, 8, 8, count - 1)
    box.timeline.enter_op(OP_NUMBER["all_reduce"], group, 8, 8)
    assert read(box)["now"].sequence == count
    box.timeline.leave_op()
    box.timeline.count_op(OP_NUMBER["all_reduce"], group, 8, 8, 400)
    assert read_part(box, "entered")[0].sequence == count
    box.timeline.wait_op(OP_NUMBER["all_reduce"], group, 16)
    assert read(box)["now"].sequence == count + 401


def test_bytes_above_the_maximum_are_stored_as_the_maximum(box):
    box.timeline.enter_op(OP_NUMBER["all_reduce"], box.timeline.group("0", 2), 1 << 50, 1 << 50)
    now = read(box)["now"]
    assert (now.op, now.num_bytes, now.sequence) == ("all_reduce", layout.MAX_BYTES, 1)


@pytest.mark.parametrize("activity", ACTIVITIES)
@pytest.mark.parametrize("phase", PHASES)
def test_every_activity_and_phase_is_read(box, activity, phase):
    """A word without enough bits for its number would be read as another word."""
    box.timeline.turn_to(ACTIVITY_NUMBER[activity])
    box.timeline.phase(PHASE_NUMBER[phase])
    now = read(box)["now"]
    assert (now.activity, now.phase, now.op) == (activity, phase, None)


@pytest.mark.parametrize("op", OPS)
def test_every_collective_and_group_is_read(box, op):
    for number in range(layout.MAX_GROUPS):
        group = box.timeline.group(str(number), 2)
        box.timeline.enter_op(OP_NUMBER[op], group, 8, 8)
        now = read(box)["now"]
        assert (now.op, now.group, now.activity, now.phase) == (op, number, "init", "other")
        box.timeline.leave_op()


def test_step_is_the_current_step_while_training_and_else_the_last_step(box):
    assert read(box)["now"].step == 0
    box.timeline.begin_step(None)
    assert read(box)["now"].step == 1
    box.timeline.end_step()
    assert read(box)["now"].step == 2
    box.timeline.turn_to(EVAL)
    assert read(box)["now"].step == 1
    box.timeline.begin_step(7)
    assert read(box)["now"].step == 7


def test_every_field_of_totals_and_records_is_read(box):
    times = list(range(100, 100 + layout.NUM_TIMES))
    counts = list(range(200, 200 + layout.NUM_COUNTS))
    unknown = [UNKNOWN] * layout.NUM_AMOUNTS
    amounts = range(400, 400 + layout.NUM_AMOUNTS)
    step_amounts = range(300, 300 + layout.NUM_AMOUNTS)
    before = box.boundary(
        (layout.KIND, layout.TURN), (layout.STEP_NUMBER, 9), (layout.LAST_STEP, UNKNOWN),
        (layout.LAST_CHECKPOINT, UNKNOWN), (MEMORY, [UNKNOWN] * 3), (layout.AMOUNTS, unknown),
        (layout.STEP_AMOUNTS, unknown),
    )  # fmt: skip
    boundary = box.boundary(
        (layout.KIND, layout.STEP), (layout.STEP_NUMBER, 9), (layout.TIME, 1_020_000_000), (layout.STEPS, 1),
        (layout.STEP_NS, 20_000_000), (layout.LAST_STEP, 5_000_000_000), (layout.LAST_CHECKPOINT, 6_000_000_000),
        (MEMORY, (11, 12, 13)), (layout.OVERHEAD, 7_000_000), (layout.DROPPED, 3),
        (layout.BETWEEN, (50, 0, 52, 53, 0, 0, 0)), (layout.STEP_AMOUNTS, step_amounts),
        (layout.AMOUNTS, amounts), (layout.TIMES, times), (layout.COUNTS, counts),
    )  # fmt: skip
    box.writer.place(boundary, 0, 0, 10)
    answers = read(box)
    totals, (record,) = answers["totals"], answers["records"]
    assert answers["last_boundary"][layout.NUMBER] == boundary == before + 1
    assert (totals.steps, totals.step_seconds) == (1, pytest.approx(0.020))
    assert (totals.last_step_time, totals.last_checkpoint_time) == (5.0, 6.0)
    assert totals.memory == (11, 12, 13)
    assert totals.between_seconds == pytest.approx({"init": 50e-9, "eval": 52e-9, "checkpoint": 53e-9})
    assert (totals.overhead_seconds, totals.dropped_records) == (pytest.approx(0.007), 3)
    assert (record.step, record.device_memory_peak_bytes) == (9, 13)
    assert (record.start, record.duration) == (pytest.approx(1.0), pytest.approx(0.020))
    for measured, numbers in ((totals.measures, amounts), (record.measures, step_amounts)):
        work = (measured.samples, measured.lookups, measured.flops, measured.memory_traffic_bytes)
        assert work == tuple(numbers[:4])
        assert (measured.nic_sent_bytes, measured.nic_received_bytes) == tuple(numbers[-2:])
        assert list(measured.phases) == list(PHASES)
        assert list(measured.ops) == list(OPS)
        for number, phase in enumerate(PHASES):
            assert measured.phases[phase] == pytest.approx(times[layout.PHASE + number] * 1e-9)
        for number, op in enumerate(OPS):
            assert measured.ops[op] == OpTotals(
                counts[layout.COUNT + number],
                pytest.approx(times[layout.EXPOSED + number] * 1e-9),
                pytest.approx(times[layout.INFLIGHT + number] * 1e-9),
                counts[layout.SENT + number],
                counts[layout.RECEIVED + number],
            )


def test_report_groups_and_sequences_are_read(box):
    box.ledger.report({"loss": 0.5, "auc": float("nan")}, 1)
    for name, size in (("default", 4), ("tables", 2)):
        box.timeline.group(name, size)
    for group in (0, 1, 1):
        box.timeline.count_op(OP_NUMBER["all_reduce"], group, 8, 8)
    answers = read(box)
    assert answers["report"]["loss"] == 0.5
    assert math.isnan(answers["report"]["auc"])
    assert answers["groups"] == {0: ("default", 4), 1: ("tables", 2)}
    assert (answers["sequences"][0], answers["sequences"][1]) == (1, 2)


def test_every_field_of_last_words_is_read(box):
    assert read(box)["words"] is None
    error = ("exception", "builtins.RuntimeError", "step failed")
    origin = {"where": "load() at train.py:88", "root": "gloo: Connection reset", "in_collective": True}
    box.writer.last_words(1_700_000_000_500_000_000, *error, **origin)
    assert read(box)["words"] == LastWords(*error, 1_700_000_000.5, **origin)


def test_long_last_words_are_cut_between_characters(box):
    box.writer.last_words(time.time_ns(), "exception", "builtins.ValueError", "ж" * 5000)
    message = read(box)["words"].message
    assert set(message) == {"ж"}
    assert len(message.encode()) == 1022  # of 1,024 bytes, the last one is 0, and ж has two


def test_stack_appended_by_a_signal_handler_is_read_as_last_words(box):
    append(box, layout.TRACE + b"\n  File train.py, line 3 in main\n")
    words = read(box)["words"]
    assert (words.kind, words.type) == ("signal", "SIGTERM")
    assert "train.py, line 3" in words.message
    assert words.time == pytest.approx(box.path.stat().st_mtime)


def test_last_words_in_the_cell_come_before_a_stack(box):
    append(box, layout.TRACE + b"\n  File train.py, line 3 in main\n")
    box.writer.last_words(time.time_ns(), "exception", "builtins.ValueError", "bad batch")
    assert read(box)["words"].type == "builtins.ValueError"


@pytest.mark.parametrize(
    ("sent", "sender"),
    [(1_700_000_000, 4711), (1_699_999_000, None), (1_700_000_001, None)],
    ids=["just before", "long before", "after"],
)
def test_exception_has_the_sender_of_a_signal_that_came_just_before_it(box, sent, sender):
    append(box, layout.SENDER_LINE + b"4711 at %d.000000000\n" % sent)
    box.writer.last_words(1_700_000_000_500_000_000, "exception", "builtins.RuntimeError", "preempted")
    assert read(box)["words"].sender_pid == sender


def test_tail_without_a_stack_is_ignored(box):
    append(box, b"garbage")
    assert read(box)["words"] is None


def test_long_stack_is_cut(box):
    append(box, layout.TRACE + b"x" * 10_000_000)
    assert len(read(box)["words"].message) == layout.TAIL_READ_BYTES
