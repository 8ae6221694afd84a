"""One timeline: at any instant a rank is in exactly one phase or one exposed op, so a step is the sum of its parts."""

from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import Box
from zmon.box import BoxReader, layout
from zmon.interface import JobInterface
from zmon.probe.rank import CHECKPOINT, EVAL, OP_NUMBER, OTHER, PHASE_NUMBER, TRAIN
from zmon.records import OPS, PHASES

ALL_REDUCE, ALL_TO_ALL = OP_NUMBER["all_reduce"], OP_NUMBER["all_to_all"]


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


def read(box):
    """Step records and totals."""
    reader = BoxReader(box.path)
    try:
        return [record for _, record in reader.records(0)], reader.totals()
    finally:
        reader.close()


def ns(seconds):
    return round(seconds * 1e9)


def parts(measures):
    """Nanoseconds by phase and op."""
    phases = {name: ns(seconds) for name, seconds in measures.phases.items()}
    return phases | {name: ns(op.exposed_seconds) for name, op in measures.ops.items() if op.exposed_seconds}


# -- a step is the sum of its parts ------------------------------------------------------------------------


def test_entering_a_collective_suspends_the_phase_and_leaving_it_resumes_it(box):
    box.timeline.begin_step(None)
    box.timeline.phase(PHASE_NUMBER["backward"])
    box.clock.sleep(0.003)
    assert box.timeline.enter_op(ALL_REDUCE, 0, 80, 80)
    box.clock.sleep(0.005)
    box.timeline.leave_op()
    box.clock.sleep(0.002)
    box.timeline.end_step()
    (record,), _ = read(box)
    assert parts(record.measures) == {"backward": 5_000_000, "all_reduce": 5_000_000}
    assert ns(record.duration) == 10_000_000


def test_gap_between_steps_belongs_to_the_step_after_it(box):
    box.steps(1)
    box.clock.sleep(0.007)  # fetching the next batch, outside `with step()`
    box.steps(1)
    records, totals = read(box)
    assert parts(records[1].measures) == {"other": 7_000_000, "forward": 10_000_000, "all_to_all": 10_000_000}
    assert [ns(record.duration) for record in records] == [20_000_000, 27_000_000]
    assert ns(records[1].start) == ns(records[0].start) + 20_000_000
    assert ns(totals.step_seconds) == 47_000_000


def test_phase_that_is_named_between_steps_counts_for_the_step_after_it(box):
    box.steps(1)
    box.timeline.phase(PHASE_NUMBER["data"])
    box.clock.sleep(0.004)
    box.steps(1)
    assert parts(read(box)[0][1].measures)["data"] == 4_000_000


def test_evaluation_between_steps_belongs_to_no_step(box):
    box.steps(1)
    before = box.timeline.turn_to(EVAL)
    box.clock.sleep(100)
    box.timeline.turn_to(before)
    box.clock.sleep(0.001)
    box.steps(1)
    records, totals = read(box)
    assert before == TRAIN
    assert ns(records[1].duration) == 21_000_000 == sum(parts(records[1].measures).values())
    assert ns(totals.step_seconds) == 41_000_000


def test_evaluation_inside_a_step_leaves_a_step_that_sums_up(box):
    box.timeline.begin_step(None)
    box.clock.sleep(0.010)
    before = box.timeline.turn_to(EVAL)
    box.clock.sleep(1)
    box.timeline.turn_to(before)
    box.clock.sleep(0.002)
    box.timeline.end_step()
    (record,), _ = read(box)
    assert ns(record.duration) == 2_000_000 == sum(parts(record.measures).values())


def test_collective_made_of_collectives_counts_once_as_the_outermost(box):
    box.timeline.begin_step(None)
    assert box.timeline.enter_op(ALL_TO_ALL, 0, 10, 20)
    box.clock.sleep(0.001)
    assert not box.timeline.enter_op(ALL_REDUCE, 0, 1000, 1000)
    box.timeline.count_op(ALL_REDUCE, 0, 1000, 1000)
    box.clock.sleep(0.002)
    box.timeline.leave_op()
    box.timeline.end_step()
    (record,), _ = read(box)
    assert list(record.measures.ops) == ["all_to_all"]
    op = record.measures.ops["all_to_all"]
    assert (op.count, op.sent_bytes, op.received_bytes, ns(op.exposed_seconds)) == (1, 10, 20, 3_000_000)


def test_asynchronous_collective_counts_with_its_bytes_and_costs_the_phase_nothing(box):
    box.timeline.begin_step(None)
    box.timeline.count_op(ALL_REDUCE, 0, 10, 20)
    box.clock.sleep(0.001)
    box.timeline.end_step()
    (record,), _ = read(box)
    op = record.measures.ops["all_reduce"]
    assert (op.count, op.sent_bytes, op.received_bytes, op.exposed_seconds) == (1, 10, 20, 0.0)
    assert parts(record.measures) == {"other": 1_000_000}


def test_step_that_raised_is_part_of_the_next_one(box):
    """The time was spent; `with zmon.step()` does not end a step that raised."""
    box.timeline.begin_step(None)
    box.timeline.phase(PHASE_NUMBER["forward"])
    box.clock.sleep(0.010)
    box.steps(1)  # the batch was skipped: `begin_step` again, with no `end_step` before
    (record,), totals = read(box)
    assert ns(record.duration) == 30_000_000 == sum(parts(record.measures).values())
    assert totals.steps == 1


def test_collective_in_another_thread_does_not_suspend_the_phase(box):
    box.timeline.begin_step(None)
    entered = []
    thread = Thread(target=lambda: entered.append(box.timeline.enter_op(ALL_REDUCE, 0, 8, 8)))
    thread.start()
    thread.join()
    box.clock.sleep(0.001)
    box.timeline.end_step()
    assert entered == [False]
    assert parts(read(box)[0][0].measures) == {"other": 1_000_000}


STEP = st.sampled_from(["begin", "end", "raise", "eval", "enter", "leave", "async", *PHASES])


@settings(max_examples=100, deadline=None)
@given(acts=st.lists(st.tuples(STEP, st.integers(0, 10**9), st.sampled_from(OPS)), max_size=80))
def test_every_step_sums_up_to_the_nanosecond_whatever_the_trainer_does(tmp_path_factory, acts):
    box = Box(tmp_path_factory.mktemp("timeline"))
    inside = in_step = False
    for act, nanoseconds, op in acts:
        if act == "enter":
            inside = box.timeline.enter_op(OP_NUMBER[op], 0, 1, 2) or inside
        elif act == "async":
            box.timeline.count_op(OP_NUMBER[op], 0, 1, 2)
        elif inside:  # a rank inside a collective can do nothing else
            if act == "leave":
                box.timeline.leave_op()
                inside = False
        elif act == "begin":
            box.timeline.begin_step(None)
            in_step = True
        elif act == "end" and in_step:
            box.timeline.end_step()
            in_step = False
        elif act == "eval":
            box.timeline.turn_to(box.timeline.turn_to(EVAL))
        elif act in PHASE_NUMBER:
            box.timeline.phase(PHASE_NUMBER[act])
        box.clock.ns += nanoseconds
    records, totals = read(box)
    for record in records:
        assert sum(parts(record.measures).values()) == ns(record.duration)
    assert totals.steps == len(records)
    assert ns(totals.step_seconds) == sum(ns(record.duration) for record in records)
    for phase in PHASES:  # a rank's own time counts in steps only
        assert ns(totals.measures.phases.get(phase, 0)) == sum(ns(r.measures.phases.get(phase, 0)) for r in records)
    assert sum(op.count for op in totals.measures.ops.values()) >= sum(
        op.count for record in records for op in record.measures.ops.values()
    )


def test_totals_are_the_sums_of_the_records(box):
    for number in range(5):
        box.timeline.begin_step(None)
        box.timeline.work(32, 100 + number)
        box.steps(1)
    records, totals = read(box)
    assert totals.measures.samples == sum(record.measures.samples for record in records) == 160
    assert totals.measures.lookups == sum(record.measures.lookups for record in records) == 510
    whole, each = totals.measures.ops["all_to_all"], [record.measures.ops["all_to_all"] for record in records]
    assert (whole.count, whole.sent_bytes, whole.received_bytes) == (5, 500, 300)
    assert whole.sent_bytes == sum(op.sent_bytes for op in each)
    assert ns(whole.exposed_seconds) == sum(ns(op.exposed_seconds) for op in each)
    assert ns(whole.inflight_seconds) == ns(whole.exposed_seconds)


def test_collective_outside_steps_counts_in_the_totals_only(box):
    box.timeline.enter_op(OP_NUMBER["broadcast"], 0, 8, 0)
    box.clock.sleep(0.5)
    box.timeline.leave_op()
    box.steps(1)
    (record,), totals = read(box)
    assert "broadcast" not in record.measures.ops
    broadcast = totals.measures.ops["broadcast"]
    assert (broadcast.count, broadcast.sent_bytes, broadcast.exposed_seconds) == (1, 8, 0.0)  # time is that of steps
    assert ns(totals.step_seconds) == 20_000_000


# -- what the state shows ----------------------------------------------------------------------------------


def now(box):
    reader = BoxReader(box.path)
    try:
        return reader.now()
    finally:
        reader.close()


def test_steps_count_on_by_themselves_and_from_a_number_that_is_given(box):
    for number, expected in ((None, 1), (None, 2), (500, 500), (None, 501)):
        box.timeline.begin_step(number)
        assert now(box).step == expected
        box.timeline.end_step()


def test_lease_is_renewed_by_the_end_of_a_step_and_not_by_its_begin(box):
    box.steps(1)
    boundary = box.clock.ns
    box.clock.sleep(1)
    box.timeline.begin_step(None)
    assert now(box).step_since == boundary
    box.clock.sleep(1)
    box.timeline.end_step()
    assert now(box).step_since == box.clock.ns


def test_activity_begins_when_the_rank_turns_to_it(box):
    box.steps(1)
    box.clock.sleep(1)
    box.timeline.turn_to(EVAL)
    box.clock.sleep(3)
    assert now(box).activity == "eval"
    assert box.clock.ns - now(box).activity_since == 3_000_000_000


def test_only_a_checkpoint_leaves_the_time_of_a_checkpoint(box):
    box.timeline.turn_to(box.timeline.turn_to(EVAL))
    assert read(box)[1].last_checkpoint_time is None
    box.timeline.turn_to(box.timeline.turn_to(CHECKPOINT))
    assert read(box)[1].last_checkpoint_time is not None


def test_sequence_counts_per_group(box):
    first, second = box.timeline.group("0", 4), box.timeline.group("tables", 2)
    for group in (first, second, first):
        box.timeline.enter_op(ALL_REDUCE, group, 8, 8)
        box.timeline.leave_op()
    reader = BoxReader(box.path)
    assert (reader.sequences()[first], reader.sequences()[second]) == (2, 1)
    reader.close()
    assert now(box).sequence == 2


def test_ninth_group_has_no_number_and_disturbs_none_of_the_eight(box):
    numbers = [box.timeline.group(str(name), 2) for name in range(9)]
    assert numbers == [*range(8), layout.NONE]
    assert box.timeline.enter_op(ALL_REDUCE, layout.NONE, 8, 8)
    assert now(box).group is None
    assert now(box).op == "all_reduce"
    box.timeline.leave_op()
    reader = BoxReader(box.path)
    assert set(reader.sequences().values()) == {0}
    reader.close()


def test_point_to_point_does_not_advance_the_sequence_that_collectives_are_matched_by(box):
    """Only two members of a group take part in a send: were it counted, the sequences of the others would differ."""
    group = box.timeline.group("0", 4)
    box.timeline.enter_op(OP_NUMBER["send"], group, 8, 0)
    box.timeline.leave_op()
    reader = BoxReader(box.path)
    assert reader.sequences()[group] == 0
    reader.close()


# -- report and work ---------------------------------------------------------------------------------------


def reported(box):
    reader = BoxReader(box.path)
    try:
        return reader.report()
    finally:
        reader.close()


def test_report_keeps_four_keys_and_counts_the_others(box):
    box.timeline.report({"loss": 0.5, "auc": 0.6, "lr": 0.1, "ne": 0.9})
    box.timeline.report({"fifth": 1.0, "sixth": 2.0, "loss": 0.4})
    box.steps(1)
    assert reported(box) == {"loss": 0.4, "auc": 0.6, "lr": 0.1, "ne": 0.9}
    assert read(box)[1].dropped_records == 2


def test_report_leaves_nan_a_nan(box):
    box.timeline.report({"loss": float("nan")})
    assert reported(box)["loss"] != reported(box)["loss"]


def test_amount_of_work_that_is_no_number_of_things_costs_no_later_step(box):
    """`zmon.work(samples=mask.sum() / 2)` is a slip; it must not blind zmon for the rest of the job."""
    try:
        box.timeline.work(1.5, None)
        box.steps(1)
    except Exception:  # the probe's door says it once and goes on
        pass
    box.steps(3)
    assert read(box)[1].steps >= 3


@pytest.mark.parametrize("number", ["seven", 1.5, 2**70])
def test_step_number_that_is_none_costs_no_later_step(box, number):
    try:
        box.timeline.begin_step(number)
        box.timeline.end_step()
    except Exception:  # the probe's door says it once and goes on
        pass
    box.timeline.begin_step(7)
    box.timeline.end_step()
    box.steps(2)
    assert [record.step for record in read(box)[0]][-3:] == [7, 8, 9]


# -- the interface -----------------------------------------------------------------------------------------


class FakeInterface(JobInterface):
    """Counters that a test sets."""

    def __init__(self):
        self.counters = [1000, 2000]
        self._last = self.read()

    def read(self):
        return tuple(self.counters) if self.counters else None


def test_bytes_on_the_interface_are_those_of_the_step(tmp_path):
    box = Box(tmp_path)
    interface = FakeInterface()
    box.timeline._interface = interface
    box.timeline.begin_step(None)
    interface.counters = [1300, 2050]
    box.timeline.end_step()
    (record,), totals = read(box)
    assert (record.measures.nic_sent_bytes, record.measures.nic_received_bytes) == (300, 50)
    assert (totals.measures.nic_sent_bytes, totals.measures.nic_received_bytes) == (300, 50)


@pytest.mark.parametrize("counters", [[10, 20], None], ids=["reset", "gone"])
def test_interface_that_was_reset_or_is_gone_is_unknown_and_not_negative(tmp_path, counters):
    box = Box(tmp_path)
    interface = FakeInterface()
    box.steps(1)
    box.timeline._interface = interface
    interface.counters = counters
    box.steps(1)
    measures = read(box)[0][1].measures
    assert measures.nic_sent_bytes is None
    assert measures.nic_received_bytes is None


def test_phase_after_a_step_is_other_until_it_is_named(box):
    box.steps(1)
    assert now(box).phase == PHASES[OTHER]
