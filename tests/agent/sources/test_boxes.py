"""Tests of the scan of all boxes: the state that it reports for each rank, and the suspects."""

import signal
import time

import pytest

from tests.boxes import Box, Clock, eventually
from tests.build import JOB
from zmon.agent.sources.boxes import Boxes
from zmon.box.reader import BoxReader
from zmon.job.lease import Leases
from zmon.probe.rank import DONE, EVAL, OP_NUMBER, PHASE_NUMBER, TRAIN
from zmon.schema.api import Suspicion
from zmon.schema.names import LABEL_LIMITS


def test_state_of_a_living_rank_is_reported(boxes, make_live_box, clock, scan_states):
    box = make_live_box(rank=3, labels={"owner": "ann"})
    box.steps(10)
    box.timeline.enter_op(OP_NUMBER["all_reduce"], box.timeline.group("0", 2), 4096, 4096)
    clock.sleep(0.5)
    state = scan_states()[3]
    assert (state.job_id, state.host, state.pid, state.alive) == (JOB, "node-a", box.holder.pid, True)
    assert state.process_state in "RS"
    assert (state.activity, state.step, state.steps) == ("train", 11, 10)
    assert (state.in_flight.op, state.in_flight.group, state.in_flight.num_bytes) == ("all_reduce", "0", 8192)
    assert state.in_flight.seconds == pytest.approx(0.5)
    assert state.in_flight.sequence == state.sequences["0"] == 11
    assert (state.step_seconds, state.state_seconds) == pytest.approx((0.5, 0.5))
    assert state.step_seconds_total == pytest.approx(0.2)
    assert (state.gone_seconds, state.stopped_seconds, state.exit_status, state.last_words) == (None,) * 4
    assert (state.launcher, state.max_restarts, state.labels) == ("900@1", 3, {"owner": "ann"})
    assert state.resident_bytes > 1_000_000


def test_surplus_labels_are_left_out_and_counted(boxes, make_live_box, scan_states):
    make_live_box(labels={f"n{number}": "v" for number in range(20)})
    assert len(scan_states()[0].labels) == 16
    assert f"4 labels of job: {LABEL_LIMITS}" in boxes.read().dropped


def test_rank_is_leaving_after_an_exception_until_its_process_ends(boxes, make_live_box, scan_states):
    box = make_live_box()
    assert scan_states()[0].leaving_seconds is None
    box.writer.last_words(time.time_ns(), "exception", "builtins.ValueError", "bad batch 17")
    assert 0 <= scan_states()[0].leaving_seconds < 30
    box.holder.end(signal.SIGKILL)
    boxes.scan()
    assert scan_states()[0].leaving_seconds is None


def test_lease_of_an_evaluation_is_learned_from_earlier_evaluations(make_live_box, clock, scan_states, scan_during):
    box = make_live_box()
    box.steps(3)
    for _ in range(3):
        assert scan_states()[0].lease_seconds == Leases.eval_seconds  # even before the lease of `train` is learned
        box.timeline.turn_to(EVAL)
        assert scan_states()[0].lease_seconds == Leases.eval_seconds
        clock.sleep(40)
        box.timeline.turn_to(TRAIN)
    scan_states()
    box.timeline.turn_to(EVAL)
    assert scan_states()[0].lease_seconds == pytest.approx(200.0)  # five times as long
    scan_during(201)
    assert scan_states()[0].overdue_seconds == pytest.approx(1.0)


def test_killed_rank_is_a_suspect_for_a_minute_and_reported_for_longer(boxes, make_live_box, clock, scan_states):
    """The hub makes up to four passes a second while there is a suspect."""
    box = make_live_box()
    box.steps(3)
    assert boxes.scan() == frozenset()
    box.holder.end(signal.SIGKILL)
    assert boxes.scan() == {Suspicion(JOB, 0, "exited")}
    clock.sleep(2)
    state = scan_states()[0]
    assert (state.alive, state.exit_status, state.gone_seconds) == (False, "signal SIGKILL", pytest.approx(2.0))
    assert (state.process_state, state.overdue_seconds) == (None, 0)
    clock.sleep(59)
    assert boxes.scan() == frozenset()
    assert scan_states()[0].alive is False


def test_stopped_rank_is_a_suspect_at_the_next_scan(boxes, make_live_box, clock, scan_states):
    box = make_live_box()
    boxes.scan()
    box.holder.process.send_signal(signal.SIGSTOP)
    assert eventually(lambda: boxes.scan() == {Suspicion(JOB, 0, "stopped")})
    clock.sleep(1)
    state = scan_states()[0]
    assert (state.process_state, state.stopped_seconds) == ("T", pytest.approx(1.0))
    box.holder.process.send_signal(signal.SIGCONT)
    assert eventually(lambda: boxes.scan() == frozenset())
    assert scan_states()[0].stopped_seconds is None


def test_rank_without_progress_past_its_lease_is_overdue(boxes, make_live_box, scan_states, scan_during):
    make_live_box().steps(10)
    boxes.scan()
    assert scan_during(1.4) == frozenset()  # the lease is 1.5 s
    assert scan_during(0.2) == {Suspicion(JOB, 0, "overdue")}
    assert scan_states()[0].overdue_seconds == pytest.approx(0.1)
    assert scan_states()[0].unobserved_seconds == 0


def test_rank_that_moves_before_its_first_step_ends_is_not_overdue(make_live_box, clock, scan_states, scan_during):
    """A first step may have thousands of batches, and the updates of some jobs are never seen as steps."""
    box = make_live_box()
    box.timeline.turn_to(TRAIN)
    for phase in ("forward", "backward", "forward"):
        clock.sleep(Leases.init_seconds - 1)
        box.timeline.phase(PHASE_NUMBER[phase])
        assert scan_states()[0].overdue_seconds == 0.0
    scan_during(Leases.init_seconds + 2)
    state = scan_states()[0]
    assert (state.steps, state.overdue_seconds) == (0, pytest.approx(2.0, abs=0.001))


def test_no_suspect_after_the_host_was_suspended(boxes, make_live_box, clock, scan_states):
    """The monotonic clock went on, but neither the agent nor the rank did: the rank could not finish its step."""
    box = make_live_box()
    box.steps(10)
    boxes.scan()
    box.steps(1)  # the last one before that
    clock.sleep(60)
    assert boxes.scan() == frozenset()
    assert scan_states()[0].unobserved_seconds == pytest.approx(59.0)
    box.steps(1)
    assert scan_states()[0].unobserved_seconds == 0


@pytest.mark.parametrize(
    ("step_seconds", "waits", "lease", "overdue"),
    [
        pytest.param(0.02, 60, Leases.train_floor_seconds, 60 - Leases.train_floor_seconds, id="short steps"),
        pytest.param(2.0, 0, Leases.train_multiple * 2.0, 0.0, id="long steps"),
    ],
)
def test_first_scan_of_an_agent_learns_the_lease_and_counts_the_whole_time_without_progress(
    make_live_box, clock, scan_states, step_seconds, waits, lease, overdue
):
    make_live_box().steps(10, seconds=step_seconds)
    clock.sleep(waits)
    state = scan_states()[0]
    assert (state.lease_seconds, state.overdue_seconds) == pytest.approx((lease, overdue))


def test_rank_in_evaluation_or_init_or_after_its_end_is_no_suspect(boxes, make_live_box, clock, scan_states):
    evaluates, ends = make_live_box(0), make_live_box(1)
    for box in (evaluates, ends):
        box.steps(10)
    make_live_box(2)  # in init
    evaluates.timeline.turn_to(EVAL)
    ends.timeline.turn_to(DONE)
    clock.sleep(600)
    assert boxes.scan() == frozenset()
    states = scan_states()
    assert [states[rank].activity for rank in range(3)] == ["eval", "done", "init"]
    assert states[1].lease_seconds is None
    ends.holder.end()
    assert boxes.scan() == frozenset()


def test_ranks_in_another_pid_namespace_are_reported(boxes, make_live_box, monkeypatch):
    """The boxes and locks of such ranks can be read, but not their processes."""
    for rank in range(2):
        make_live_box(rank)
    assert boxes.read().dropped == ()
    monkeypatch.setattr(BoxReader, "holder", lambda self: 0)
    (line,) = boxes.read().dropped
    assert line.startswith("2 ranks of job live in another PID namespace")


def test_rank_in_a_child_pid_namespace_is_found_by_its_host_pid(tmp_path, clock, boxes, stand_in, scan_states):
    """The lock holder's PID is in the agent's namespace; the box stores the PID in the rank's namespace."""
    box = Box(tmp_path, clock, {"pid": 7})
    stand_in().hold(box.path)
    state = scan_states()[0]
    assert state.alive
    assert state.process_state in "RS"


def test_restarted_rank_replaces_the_box_of_its_previous_start(boxes, make_live_box, clock, scan_states):
    earlier = make_live_box()
    earlier.steps(5)
    assert scan_states()[0].steps == 5
    earlier.holder.end()
    clock.sleep(1)
    make_live_box()
    state = scan_states()[0]
    assert (state.alive, state.steps) == (True, 0)


@pytest.mark.parametrize(
    ("seconds", "reported"), [pytest.param(10, True, id="a moment ago"), pytest.param(61, False, id="a minute ago")]
)
def test_rank_that_died_before_the_agent_started_is_reported_for_a_minute(
    boxes, make_live_box, clock, scan_states, seconds, reported
):
    """The last update of its box is the time of its death."""
    box = make_live_box()
    box.steps(5)
    box.holder.end()
    clock.sleep(seconds)
    assert boxes.scan() == ({Suspicion(JOB, 0, "exited")} if reported else frozenset())
    gone = {rank: (state.alive, state.gone_seconds) for rank, state in scan_states().items()}
    assert gone == ({0: (False, pytest.approx(seconds, abs=0.1))} if reported else {})


def test_box_from_before_a_reboot_is_not_reported(tmp_path, make_live_box):
    """A box on a disk outlives its clock, and must not look like a recent death later."""
    box = make_live_box()
    box.steps(5)
    box.holder.end()
    boxes = Boxes(tmp_path, "node-a", clock=Clock(5_000_000_000))
    boxes.scan()
    assert list(boxes.ranks()) == []


def test_boxes_of_other_commands_are_not_those_of_a_watch(tmp_path, clock, make_live_box):
    mine, *others = make_live_box(rank=0, watch=7), make_live_box(rank=1, watch=8), make_live_box(rank=2)
    boxes = Boxes(tmp_path, "node-a", clock=clock, watch=7)
    for _ in range(2):
        reading = boxes.read()
        assert [state.rank for _, state in boxes.ranks()] == [0]
        assert (reading.dropped, [*boxes.files]) == ((), [mine.path])
    for box in others:
        assert box.path.exists()


def test_box_that_cannot_be_read_is_not_that_of_a_watch(tmp_path, clock, make_live_box):
    box = make_live_box(rank=1, watch=8)
    box.path.write_bytes(b"damaged")
    boxes = Boxes(tmp_path, "node-a", clock=clock, watch=7)
    assert boxes.read().dropped == ()
    assert boxes.unread_ranks() == ()
