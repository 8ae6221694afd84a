"""Tests of the boundaries in a box. A boundary holds all totals so far; a step is the difference of two boundaries."""

import struct

import pytest

from tests.box.test_reader import read
from tests.boxes import Box
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.box.versions import CURRENT
from zmon.probe.rank import CHECKPOINT, EVAL, OP_NUMBER, PHASE_NUMBER, TRAIN
from zmon.schema.rank import Memory


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


def read_step_numbers(box):
    """Return the numbers of the boundaries that end a step."""
    return [number for number, _ in read(box)["records"]]


def read_records(box):
    """Return the records of all steps in the ring."""
    return [record for _, record in read(box)["records"]]


def times_and_counts(number):
    """Return times and counts that all have this value."""
    return [number] * layout.NUM_TIMES, [number] * layout.NUM_COUNTS


# -- changes of activity -----------------------------------------------------------------------------------


def test_boundaries_of_activities_are_not_step_records(box):
    box.steps(2)
    for activity in (EVAL, TRAIN, CHECKPOINT, TRAIN):
        box.timeline.turn_to(activity)
    box.steps(2)
    assert [record.step for record in read_records(box)] == [1, 2, 3, 4]
    assert box.ledger.boundaries == 10  # with those at the start and at the first change to training
    assert read(box)["totals"].steps == 4


def test_step_after_an_evaluation_does_not_include_the_evaluation(box):
    box.steps(1)
    box.timeline.turn_to(EVAL)
    box.timeline.phase(PHASE_NUMBER["forward"])
    box.clock.sleep(100)
    box.timeline.enter_op(OP_NUMBER["all_to_all"], 0, 1_000_000, 1_000_000)
    box.clock.sleep(100)
    box.timeline.leave_op()
    box.clock.sleep(100)
    box.timeline.turn_to(TRAIN)
    box.steps(1)
    before, after = read_records(box)
    assert after.duration == pytest.approx(0.020, abs=1e-6)
    assert after.start > before.start + 300
    assert after.measures.ops["all_to_all"].count == 1
    assert (after.measures.ops["all_to_all"].sent_bytes, after.measures.ops["all_to_all"].received_bytes) == (100, 60)
    assert after.measures.self_seconds + after.measures.exposed_seconds == pytest.approx(after.duration)
    totals = read(box)["totals"]
    assert totals.step_seconds == pytest.approx(0.040, abs=1e-6)
    assert (
        totals.measures.ops["all_to_all"].count == 3
    )  # the collective between the steps counts, but its time belongs to no step
    assert totals.measures.exposed_seconds == pytest.approx(0.020, abs=1e-6)


def test_time_between_last_step_and_evaluation_belongs_to_no_step(box):
    box.steps(1)
    box.timeline.phase(PHASE_NUMBER["data"])
    box.clock.sleep(50)
    box.timeline.turn_to(EVAL)
    box.timeline.turn_to(TRAIN)
    box.steps(1)
    assert all("data" not in record.measures.phases for record in read_records(box))
    assert "data" not in read(box)["totals"].measures.phases


# -- totals ------------------------------------------------------------------------------------------------


def test_totals_are_those_of_the_last_boundary(box):
    box.steps(3)
    totals = read(box)["totals"]
    box.timeline.begin_step(None)
    box.timeline.phase(PHASE_NUMBER["backward"])
    box.clock.sleep(5)
    assert read(box)["totals"] == totals
    box.timeline.end_step()
    assert read(box)["totals"].measures.phases["backward"] == pytest.approx(5)


def test_totals_are_the_sum_of_the_records(box):
    box.timeline.turn_to(TRAIN)
    for number in range(20):
        box.ledger.work(samples=number, lookups=None)
        box.steps(1, seconds=0.001 * number)
    totals, each = read(box)["totals"], read_records(box)
    assert totals.steps == len(each) == 20
    assert totals.step_seconds == pytest.approx(sum(record.duration for record in each))
    assert totals.measures.samples == sum(record.measures.samples for record in each) == 190
    assert totals.measures.lookups is None
    sent = [record.measures.ops["all_to_all"].sent_bytes for record in each]
    assert totals.measures.ops["all_to_all"].sent_bytes == sum(sent) == 2000


def test_unknown_values_are_none_not_zero(box):
    box.timeline.begin_step(None)
    box.timeline.end_step()
    totals, (record,) = read(box)["totals"], read_records(box)
    assert (totals.memory, totals.last_checkpoint_time, record.device_memory_peak_bytes) == (None,) * 3
    for measured in (totals.measures, record.measures):
        amounts = (measured.samples, measured.lookups, measured.network_sent_bytes, measured.network_received_bytes)
        assert (*amounts, measured.nic_sent_bytes, measured.nic_received_bytes) == (None,) * 6
        assert measured.ops == {}


def test_unknown_amount_of_a_step_leaves_the_totals_unchanged(box):
    box.timeline.turn_to(TRAIN)
    box.ledger.work(samples=32, lookups=None)
    box.steps(2)
    box.ledger.work(samples=0, lookups=7)
    box.steps(1)
    assert [record.measures.samples for record in read_records(box)] == [32, None, 0]
    assert [record.measures.lookups for record in read_records(box)] == [None, None, 7]
    assert (read(box)["totals"].measures.samples, read(box)["totals"].measures.lookups) == (32, 7)


def test_memory_and_its_peak_are_in_the_step_that_read_them(box):
    box.steps(1)
    box.ledger.memory_reader = lambda: (100, 200, 300)
    box.clock.sleep(2)
    box.steps(1)
    assert [record.device_memory_peak_bytes for record in read_records(box)] == [None, 300]
    assert read(box)["totals"].memory == Memory(100, 200, 300)


def test_network_bytes_that_become_known_count_from_zero(box):
    unknown, no_reports = (-1,) * 12, (0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)
    ends = [(-1, -1), (500, 600), (700, 900), (-1, -1)]
    for step, network in enumerate(ends, box.ledger.boundaries + 1):
        head = (layout.STEP, step, 0, 0, 0, -1, -1, -1, -1, -1, 0, 0)
        box.boundary((*head, *network, *unknown, *no_reports), *times_and_counts(0))
    box.writer.place(5, 0, 0, 1)
    amounts = [(r.measures.network_sent_bytes, r.measures.network_received_bytes) for r in read_records(box)]
    assert amounts == [(None, None), (500, 600), (200, 300), (None, None)]


# -- the ring ----------------------------------------------------------------------------------------------


def test_ring_holds_the_steps_between_the_last_4096_boundaries(box):
    box.steps(layout.RING_CAPACITY + 904)
    pairs = read(box)["records"]
    latest = box.ledger.boundaries
    assert [number for number, _ in pairs] == list(range(latest - layout.RING_CAPACITY + 2, latest + 1))
    assert [record.step for _, record in pairs] == list(range(906, 5001))


def test_records_continue_after_the_last_read(box):
    box.steps(5)
    latest = box.ledger.boundaries
    reader = BoxReader(box.path)
    assert [record.step for _, record in reader.records(latest - 2)] == [4, 5]
    assert reader.records(latest) == []
    assert reader.records(latest + 1000) == []
    box.steps(1)
    assert [(number, record.step) for number, record in reader.records(latest)] == [(latest + 1, 6)]
    reader.close()


def test_half_overwritten_boundary_is_not_returned(box):
    box.steps(layout.RING_CAPACITY + 1)
    latest = box.ledger.boundaries
    offset = CURRENT.ring + (latest + 1) % layout.RING_CAPACITY * CURRENT.boundary_size
    box.overwrite(offset, struct.pack("<Q", latest + 1))  # the number is new and the body is old
    assert read_step_numbers(box) == list(range(latest - layout.RING_CAPACITY + 3, latest + 1))


def test_boundary_with_another_number_is_not_returned(box):
    """The writer has overwritten the boundary with a valid one that is 4,096 numbers newer."""
    box.steps(4)
    steps = read_step_numbers(box)
    data = box.path.read_bytes()
    offset = CURRENT.ring + steps[3] * CURRENT.boundary_size
    box.overwrite(CURRENT.ring + steps[1] * CURRENT.boundary_size, data[offset : offset + CURRENT.boundary_size])
    assert read_step_numbers(box) == [steps[0], steps[3]]


def test_records_ended_returns_the_last_records_of_an_interval_in_order(box):
    box.steps(10, seconds=1.0)
    reader = BoxReader(box.path)
    ends = [round((record.start + record.duration) * 1e9) for _, record in reader.records(0)]

    def steps(after, until, most=100):
        return [record.step for record in reader.records_ended(after, until, most)]

    half = 500_000_000
    assert steps(ends[2] - half, ends[5] + half) == [3, 4, 5, 6]
    assert steps(ends[2] - half, ends[5] + half, most=2) == [5, 6]
    assert steps(ends[9] + half, ends[9] + 2 * half) == []
    assert steps(0, ends[9] + half) == list(range(1, 11))
    assert steps(0, ends[0] - half) == []
    reader.close()
