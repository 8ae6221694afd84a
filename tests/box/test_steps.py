"""Tests of the steps and totals of a box. A boundary has all totals so far. A step is the difference of two of them."""

from itertools import pairwise
from statistics import fmean

import pytest

from tests.boxes import all_ends, read
from zmon.box.recent import sampled_step
from zmon.box.steps import aligned_steps, totals, whole_steps
from zmon.probe.rank import CHECKPOINT, EVAL, OP_NUMBER, PHASE_NUMBER, TRAIN
from zmon.schema.measures import NS, is_aligned
from zmon.schema.steps import MEAN, MEAN_STEPS, SAME_SIZE_SENT, STEP


def read_records(box):
    """Return the records of all steps in the ring."""
    return read(box)["records"]


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
    # The collective between the steps counts, but its time belongs to no step.
    assert totals.measures.ops["all_to_all"].count == 3
    assert totals.measures.exposed_seconds == pytest.approx(0.020, abs=1e-6)


def test_time_between_last_step_and_evaluation_belongs_to_no_step(box):
    box.steps(1)
    box.timeline.phase(PHASE_NUMBER["data"])
    box.clock.sleep(50)
    box.timeline.turn_to(EVAL)
    box.timeline.turn_to(TRAIN)
    box.steps(1)
    assert ["data" in record.measures.phases for record in read_records(box)] == [False, False]
    assert "data" not in read(box)["totals"].measures.phases


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
        box.ledger.work(number, None)
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
        amounts = (measured.samples, measured.lookups, measured.flops, measured.memory_traffic_bytes)
        assert (*amounts, measured.nic_sent_bytes, measured.nic_received_bytes) == (None,) * 6
        assert measured.ops == {}


def test_unknown_amount_of_a_step_leaves_the_totals_unchanged(box):
    box.timeline.turn_to(TRAIN)
    box.ledger.work(32, None)
    box.steps(2)
    box.ledger.work(0, 7)
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
    assert read(box)["totals"].memory == (100, 200, 300)


def test_columns_of_totals_are_those_of_what_ran_and_is_known(box, reader):
    box.timeline.turn_to(TRAIN)
    box.ledger.work(32, None)
    box.timeline.begin_step(None)
    box.timeline.count_op(OP_NUMBER["send"], 0, 10, 0)
    box.timeline.end_step()
    box.steps(2, seconds=0.5)
    so_far = totals(reader.last_boundary())
    of_ops = {f"{prefix}_{op}" for prefix in ("exposed", "inflight", "calls", "bytes_sent", "bytes_received")
              for op in ("all_to_all", "send")}  # fmt: skip
    assert so_far.keys() == {"samples", "phase_forward", "phase_other", *of_ops}
    assert (so_far["samples"], so_far["calls_send"], so_far["bytes_received_all_to_all"]) == (32, 1, 120)
    assert so_far["phase_forward"] == pytest.approx(0.5)
    assert so_far["exposed_send"] == 0


def test_steps_of_several_ranks_are_one_after_the_other(box, reader):
    box.steps(3)
    ends = all_ends(reader)
    steps = whole_steps({"a": ends, "b": [], "c": ends[1:]})
    assert (steps.run_uids, steps.counts) == (("a", "b", "c"), (3, 0, 2))
    assert list(steps.column(STEP)) == [1, 2, 3, 2, 3]
    assert list(steps.column("bytes_sent_all_to_all")) == [100] * 5


def test_aligned_steps_have_only_what_the_hub_compares(box, reader):
    box.steps(64, seconds=0.5)
    steps = aligned_steps({"a": all_ends(reader)})
    assert {"phase_forward", "exposed_all_to_all", "bytes_sent_all_to_all"} < steps.columns.keys()
    assert all(is_aligned(name) for name in steps.columns.keys() - {STEP, SAME_SIZE_SENT})
    sampled = aligned_steps({"a": reader.steps_spread(0, box.clock.ns, 8)})
    means = {name for name in sampled.columns if name.startswith(MEAN) and name != MEAN_STEPS}
    assert {name.removeprefix(MEAN) for name in means} == steps.columns.keys() - {STEP, SAME_SIZE_SENT}


def test_step_without_a_mean_has_its_own_values_beside_the_means_of_others(box, reader):
    """The first sampled step has no sampled step before it, so it has no mean."""
    box.steps(74, seconds=0.002)
    box.steps(54, seconds=0.010)
    steps = aligned_steps({"a": reader.steps_spread(0, box.clock.ns, 8)})
    values, means = (
        [number * NS for number in steps.column(name)] for name in ("phase_forward", f"{MEAN}phase_forward")
    )
    sampled = list(steps.column(STEP))
    assert sampled == [step for step in range(1, 129) if step == sampled_step(step, 32)]
    assert list(steps.column(MEAN_STEPS)) == [0, *(later - step for step, later in pairwise(sampled))]

    def forward(step):
        return 0.001 if step <= 74 else 0.005

    assert values == pytest.approx([forward(step) for step in sampled], abs=1e-6)
    expected = [fmean(map(forward, range(step + 1, later + 1))) for step, later in pairwise(sampled)]
    assert means == pytest.approx([forward(sampled[0]), *expected], abs=1e-6)
