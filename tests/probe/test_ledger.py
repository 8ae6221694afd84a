"""Tests of the ledger of a rank: checkpoints, gauges, work, memory and bytes on the interface."""

from zlib import crc32

import pytest

from tests.boxes import read_part
from tests.probe.reading import read_steps
from zmon.box import layout, writer
from zmon.box.reader import BoxReader
from zmon.box.steps import StepEnds, aligned_steps
from zmon.probe.interface import JobInterface
from zmon.probe.rank import CHECKPOINT, EVAL, TRAIN
from zmon.schema.measures import AMOUNT_MEASURES
from zmon.schema.steps import MEAN

DECLARED = [measure.name for measure in AMOUNT_MEASURES[: layout.NUM_DECLARED]]


def work(box, **amounts):
    """Declare amounts of work by name; the others are None."""
    box.ledger.work(*map(amounts.get, DECLARED))


def step_with_work(box, **amounts):
    """Run a step that declares its work."""
    box.timeline.begin_step(None)
    work(box, **amounts)
    box.steps(1)


def test_only_a_complete_checkpoint_has_a_time(box):
    box.timeline.turn_to(CHECKPOINT)
    box.timeline.turn_to(EVAL)
    assert read_steps(box).totals.last_checkpoint_time is None
    box.ledger.note_checkpoint()
    box.steps(1)
    assert read_steps(box).totals.last_checkpoint_time is not None


def test_boundary_is_whole_if_another_thread_saves_between_its_copy_and_its_checksum(box, monkeypatch):
    def checksum(data, seed):
        box.ledger.note_checkpoint()
        return crc32(data, seed)

    monkeypatch.setattr(writer, "crc32", checksum)
    box.steps(1)
    box.timeline.turn_to(EVAL)
    assert BoxReader(box.path).last_boundary()[layout.NUMBER] == box.ledger.boundaries
    box.timeline.turn_to(TRAIN)
    assert read_steps(box).totals.last_checkpoint_time is not None


def test_report_stores_four_keys_and_nan_and_counts_the_others(box):
    box.ledger.report({"loss": 0.5, "auc": float("nan"), "lr": 0.1, "ne": 0.9}, 1)
    box.ledger.report({"fifth": 1.0, "sixth": 2.0, "loss": 0.4}, 1)
    box.steps(1)
    assert read_part(box, "report") == pytest.approx(
        {"loss": 0.4, "auc": float("nan"), "lr": 0.1, "ne": 0.9}, nan_ok=True
    )
    assert read_steps(box).totals.dropped_records == 2


@pytest.mark.parametrize("samples", [-1, 2**62, 2**70, float("nan"), float("inf"), "many", object(), [3]])
def test_invalid_amount_of_work_is_refused_and_loses_no_step(box, samples):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        work(box, samples=samples)
    box.steps(3)
    assert read_steps(box).totals.steps == 3
    assert read_steps(box).totals.measures.samples is None


def test_sum_of_work_is_bounded_and_loses_no_step(box):
    """An amount in a boundary has 63 bits; a boundary with a larger one would be lost, and all after it."""
    for _ in range(4):
        box.timeline.begin_step(None)
        for _ in range(4):
            work(box, samples=2**62 - 1, lookups=1)
        box.steps(1)
    records, totals = read_steps(box)
    assert totals.steps == 4
    assert records[-1].measures.samples == 2**62 - 1
    assert totals.measures.lookups == 16


def test_differences_of_totals_are_right_beyond_the_limit_of_the_totals(box):
    """A GPU does 2^62 operations within hours."""
    for _ in range(4):
        step_with_work(box, flops=2**62 - 2**10, memory_traffic=2**61)
    reader = BoxReader(box.path)
    number = box.ledger.boundaries
    before, last = reader._boundary(number - 1), reader._boundary(number)
    reader.close()
    steps = aligned_steps({"": [StepEnds(before, last, mean_from=before)]})
    means = [list(steps.column(f"{MEAN}{name}")) for name in ("flops", "memory_traffic")]
    assert means == [[2**62 - 2**10], [2**61]]


@pytest.mark.parametrize(
    ("counted_samples", "expected"), [(0, [1000, 1000, 1000]), (32, [1000, 500, 1000])], ids=["fixed", "by samples"]
)
def test_counted_step_stands_for_later_ones_by_their_samples(box, counted_samples, expected):
    box.ledger.counted_flops, box.ledger.counted_samples = 1000, counted_samples
    for samples in (32, 16, None):
        step_with_work(box, samples=samples)
    assert [r.measures.flops for r in read_steps(box).records] == expected


def test_declared_operations_count_instead_of_counted_ones(box):
    box.ledger.counted_flops = 1000
    step_with_work(box, flops=7)
    assert read_steps(box).records[0].measures.flops == 7


def test_work_before_an_evaluation_does_not_count_for_the_next_step(box):
    work(box, samples=32)
    box.timeline.turn_to(EVAL)
    box.steps(1)
    assert read_steps(box).records[0].measures.samples is None


def test_memory_is_read_once_a_second_and_kept_if_a_reading_fails(box):
    readings = []

    def reader():
        readings.append(box.clock.ns)
        return (1, 2, 3) if len(readings) == 1 else None

    box.ledger.memory_reader = reader
    box.steps(100)
    assert len(readings) == 2  # 100 steps take 2 s
    box.clock.sleep(1)
    box.steps(1)
    assert len(readings) == 3
    assert read_steps(box).totals.memory == (1, 2, 3)


class FakeInterface(JobInterface):
    """An interface whose counters a test sets: bytes sent and received."""

    def __init__(self):
        self.counters = [1000, 2000]
        self._last = self.read()

    def read(self):
        return tuple(self.counters) if self.counters else None


@pytest.fixture
def interface(box):
    """Return the interface of a rank that has done a step and begins to train again, when its counters are read."""
    box.steps(1)
    interface = box.ledger._interface = FakeInterface()
    box.timeline.turn_to(EVAL)
    box.timeline.turn_to(TRAIN)
    return interface


def step_with_traffic(box, interface, sent, seconds, received=0):
    """Run a step in which these bytes cross the interface."""
    box.timeline.begin_step(None)
    interface.counters[0] += sent
    interface.counters[1] += received
    box.clock.sleep(seconds)
    box.timeline.end_step()


def test_interface_bytes_are_counted_per_step_and_not_during_evaluation(box, interface):
    step_with_traffic(box, interface, sent=300, seconds=0.1, received=50)
    box.timeline.turn_to(EVAL)
    interface.counters = [5000, 5000]
    box.steps(1)
    records, totals = read_steps(box)
    for measures in (records[1].measures, totals.measures):
        assert (measures.nic_sent_bytes, measures.nic_received_bytes) == (300, 50)


def test_bytes_of_short_steps_are_the_mean_since_the_last_reading(box, interface):
    """Five steps of 20 ms share a reading; a slow step has its own."""
    for seconds in (0.02, 0.02, 0.02, 0.02, 0.02, 0.5):
        step_with_traffic(box, interface, round(1000 * seconds), seconds)
    records, totals = read_steps(box)
    assert [record.measures.nic_sent_bytes for record in records[1:]] == [None, None, None, None, 20, 500]
    assert totals.measures.nic_sent_bytes == 600


def test_bytes_of_steps_before_a_change_of_activity_are_in_the_totals(box, interface):
    step_with_traffic(box, interface, sent=70, seconds=0.02)
    box.timeline.turn_to(EVAL)
    interface.counters[0] += 5000
    box.timeline.turn_to(TRAIN)
    assert read_steps(box).totals.measures.nic_sent_bytes == 70


@pytest.mark.parametrize("counters", [[10, 20], None], ids=["reset", "gone"])
def test_interface_bytes_are_unknown_after_a_reset_or_without_interface(box, interface, counters):
    interface.counters = counters
    box.steps(1, seconds=0.2)
    measures = read_steps(box).records[1].measures
    assert measures.nic_sent_bytes is None
    assert measures.nic_received_bytes is None
