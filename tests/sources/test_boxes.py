"""What is every rank on this host doing, is it alive, does it make progress? One damaged box hides no other."""

import os
import signal
import struct

import pytest

from tests.build import JOB, Box, Clock, eventually
from zmon.box import layout
from zmon.probe.rank import DONE, EVAL, OP_NUMBER
from zmon.sources.boxes import Boxes, Suspicion


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def live(tmp_path, clock, stand_in):
    """Make a box whose rank lives: another process holds it."""

    def make(rank=0, **identity):
        process = stand_in()
        box = Box(tmp_path, clock, {"rank": rank, "world_size": 8, "pid": process.pid, **identity})
        process.hold(box.path)
        box.process = process
        return box

    return make


@pytest.fixture
def boxes(tmp_path, clock):
    return Boxes(tmp_path, "node-a", clock=clock)


def states(boxes):
    """State by rank, as of a fresh look."""
    boxes.look()
    return {state.rank: state for _, state in boxes.ranks()}


def test_state_of_a_rank_that_lives(boxes, live, clock):
    box = live(rank=3, labels=b'{"owner": "ann"}')
    box.steps(10)
    box.timeline.enter_op(OP_NUMBER["all_reduce"], box.timeline.group("0", 2), 4096, 4096)
    clock.sleep(0.5)
    state = states(boxes)[3]
    assert (state.job_id, state.host, state.pid, state.alive) == (JOB, "node-a", box.process.pid, True)
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


def test_killed_rank_is_gone_with_its_signal_since_it_was_first_seen_so(boxes, live, clock):
    box = live()
    box.steps(3)
    assert boxes.look() == frozenset()
    box.process.end(signal.SIGKILL)
    assert boxes.look() == {Suspicion(JOB, 0, "exited")}
    clock.sleep(2)
    state = states(boxes)[0]
    assert (state.alive, state.exit_status, state.gone_seconds) == (False, "signal SIGKILL", pytest.approx(2.0))
    assert state.process_state is None
    assert state.overdue_seconds == 0


def test_death_is_called_to_attention_for_a_minute_and_known_for_longer(boxes, live, clock):
    """The hub looks four times a second while anybody is suspected."""
    box = live()
    boxes.look()
    box.process.end()
    assert boxes.look()
    clock.sleep(61)
    assert boxes.look() == frozenset()
    assert states(boxes)[0].alive is False


def test_stopped_rank_is_told_at_the_next_look(boxes, live, clock):
    box = live()
    boxes.look()
    box.process.process.send_signal(signal.SIGSTOP)
    assert eventually(lambda: boxes.look() == {Suspicion(JOB, 0, "stopped")})
    clock.sleep(1)
    state = states(boxes)[0]
    assert (state.process_state, state.stopped_seconds) == ("T", pytest.approx(1.0))
    box.process.process.send_signal(signal.SIGCONT)
    assert eventually(lambda: boxes.look() == frozenset())
    assert states(boxes)[0].stopped_seconds is None


def test_rank_without_progress_past_its_lease_is_overdue(boxes, live, clock):
    live().steps(10)
    boxes.look()
    clock.sleep(1.4)
    assert boxes.look() == frozenset()
    clock.sleep(0.2)
    assert boxes.look() == {Suspicion(JOB, 0, "overdue")}
    assert states(boxes)[0].overdue_seconds == pytest.approx(0.1)


def test_lease_is_learned_from_the_steps_that_were_there_before_the_agent(boxes, live):
    live().steps(10, seconds=2.0)
    assert states(boxes)[0].lease_seconds == pytest.approx(30.0)


def test_nobody_is_suspected_during_evaluation_or_initialization_or_when_done(boxes, live, clock):
    evaluates, ends, begins = live(0), live(1), live(2)
    for box in (evaluates, ends):
        box.steps(10)
    evaluates.timeline.turn_to(EVAL)
    ends.timeline.turn_to(DONE)
    clock.sleep(600)
    assert boxes.look() == frozenset()
    assert states(boxes)[1].lease_seconds is None
    assert begins.path.exists()
    ends.process.end()
    assert boxes.look() == frozenset()


def test_rank_of_another_pid_namespace_is_read_by_the_pid_it_has_here(tmp_path, clock, boxes, stand_in):
    """The kernel translates the pid of the lock's holder; the one in the box is that of the rank's own namespace."""
    box = Box(tmp_path, clock, {"pid": 7})
    stand_in().hold(box.path)
    state = states(boxes)[0]
    assert state.alive
    assert state.process_state in "RS"


def test_run_that_begins_anew_replaces_the_box_of_the_one_before(boxes, live, clock):
    before = live()
    before.steps(5)
    assert states(boxes)[0].steps == 5
    before.process.end()
    clock.sleep(1)
    live()
    state = states(boxes)[0]
    assert (state.alive, state.steps) == (True, 0)


def test_box_of_a_rank_that_died_before_the_agent_came(boxes, live, clock):
    box = live()
    box.steps(5)
    box.process.end()
    clock.sleep(10)
    state = states(boxes)[0]
    assert (state.alive, state.gone_seconds) == (False, pytest.approx(10.0))


def test_box_that_a_dead_job_left_long_ago_is_no_news(boxes, live, clock):
    box = live()
    box.steps(5)
    box.process.end()
    clock.sleep(61)
    assert boxes.look() == frozenset()
    assert list(boxes.ranks()) == []


def test_box_from_before_a_reboot_is_no_news(tmp_path, live):
    """On a disk it outlives the clock it was written on; it must not turn up as a fresh death some day."""
    box = live()
    box.steps(5)
    box.process.end()
    booted = Clock(5_000_000_000)
    boxes = Boxes(tmp_path, "node-a", clock=booted)
    boxes.look()
    assert list(boxes.ranks()) == []


# -- damage ------------------------------------------------------------------------------------------------


STATES = range(layout.LIVE, layout.LIVE + 32, 8)


def damage_now(box):
    """All words of both states; again, and they are as they were."""
    for at in STATES:
        box.flip(at + 3)


@pytest.mark.parametrize("what", ["foreign", "truncated", "version", "damaged", "directory", "link"])
def test_damaged_box_is_reported_in_one_line_and_hides_no_other(boxes, live, tmp_path, what):
    good, bad = live(0), live(1)
    if what == "foreign":
        bad.overwrite(0, b"#!/bin/sh\n")
    elif what == "truncated":
        bad.path.write_bytes(bad.path.read_bytes()[:1000])
    elif what == "version":
        bad.overwrite(8, struct.pack("<I", 99))
    elif what == "damaged":
        damage_now(bad)
    else:
        bad.path.unlink()
        bad.path.mkdir() if what == "directory" else bad.path.symlink_to(good.path)
    assert list(states(boxes)) == [0]
    assert list(boxes.damaged) == [bad.path]
    line = boxes.damaged[bad.path]
    assert str(bad.path) in line
    assert "\n" not in line


def test_box_that_is_damaged_while_it_is_watched_is_left_aside(boxes, live):
    live(0)
    bad = live(1)
    assert len(states(boxes)) == 2
    damage_now(bad)
    assert list(states(boxes)) == [0]
    assert "its state does not check" in boxes.damaged[bad.path]


def test_box_that_only_looked_damaged_for_a_moment_is_not_lost(boxes, live, clock):
    """A look that is held up between the two copies can find both torn, a few times in a million."""
    box = live()
    states(boxes)
    damage_now(box)
    states(boxes)
    damage_now(box)
    clock.sleep(6)
    assert list(states(boxes)) == [0]
    assert boxes.damaged == {}


def test_damaged_box_is_forgotten_when_its_file_goes(boxes, live):
    bad = live()
    damage_now(bad)
    boxes.look()
    bad.path.unlink()
    boxes.look()
    assert boxes.damaged == {}


def test_box_directory_that_is_not_there_yet_is_empty(tmp_path):
    boxes = Boxes(tmp_path / "none", "node-a")
    assert boxes.look() == frozenset()
    assert list(boxes.ranks()) == []


# -- pruning -----------------------------------------------------------------------------------------------


def test_box_stays_for_its_grace_period_and_then_nothing_stays(boxes, live, clock, tmp_path):
    ranks = [live(0), live(1)]
    for box in ranks:
        box.path.with_suffix(".sock").touch()
    boxes.look()
    for box in ranks:
        box.process.end()
    boxes.look()
    clock.sleep(899)
    boxes.prune()
    assert ranks[0].path.exists()
    clock.sleep(2)
    boxes.prune()
    assert list(tmp_path.iterdir()) == []


def test_prune_spares_who_lives_and_the_dead_that_they_wait_for(boxes, live, clock):
    dead, alive = live(0), live(1)
    boxes.look()
    dead.process.end()
    boxes.look()
    clock.sleep(1000)
    boxes.prune()
    assert dead.path.exists()
    assert alive.path.exists()
    alive.process.end()
    boxes.look()
    clock.sleep(1000)
    boxes.prune()
    assert not dead.path.exists()


def test_prune_leaves_nothing_of_a_rank_that_died_while_it_made_its_box(boxes, live, clock, tmp_path):
    """Killed between `_create` and `publish` it leaves 3 MB of /dev/shm under a name that nobody looks at."""
    box = live()
    unfinished = box.path.with_name(".rank-1.box.4711")
    unfinished.write_bytes(b"\0" * 100)
    os.utime(unfinished, (0, 0))  # an old one: a rank may be starting here just now
    boxes.look()
    box.process.end()
    boxes.look()
    clock.sleep(1000)
    boxes.prune()
    assert list(tmp_path.iterdir()) == []


def test_prune_removes_the_socket_that_the_box_names(boxes, live, clock, tmp_path_factory):
    socket = tmp_path_factory.mktemp("short") / "zmon-1234.sock"
    socket.touch()
    box = live(socket=str(socket).encode())
    boxes.look()
    box.process.end()
    boxes.look()
    clock.sleep(1000)
    boxes.prune()
    assert not socket.exists()
