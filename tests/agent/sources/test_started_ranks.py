"""Tests of a rank that was its whole job and has started other processes: when they are ranks, its launch is over."""

import signal
from dataclasses import replace

import pytest

from zmon.agent.sources import process_table, started_ranks
from zmon.agent.sources.process_table import ProcessTable
from zmon.job.lease import Leases
from zmon.probe.rank import DONE
from zmon.process import process_id, process_stat

ALONE = {"job_id": "tried", "world_size": 1, "local_world_size": 1, "backend": None}
WATCHED, OVER = ("train", False), ("done", True)  # activity, and whether the rank is superseded


@pytest.fixture
def family(boxes, make_live_box, stand_in, clock, monkeypatch):
    """Return a rank that has not begun to train."""
    return Family(boxes, make_live_box, stand_in, clock, monkeypatch)


class Family:
    """A rank that has trained, and the processes that it starts."""

    def __init__(self, boxes, make_live_box, stand_in, clock, monkeypatch):
        self._boxes, self._make, self.stand_in, self._clock = boxes, make_live_box, stand_in, clock
        self._parents, self._starts, self._newest = {}, {}, {}  # by pid: its parent, its start, and its newest child's
        self.parent, self.suspects = None, frozenset()  # the box of the rank, and the suspects at the last scan
        monkeypatch.setattr(process_table, "process_stat", self._stat)
        monkeypatch.setattr(process_table, "process_id", self._identify)
        monkeypatch.setattr(started_ranks, "boot_ticks", self._ticks)
        monkeypatch.setattr(ProcessTable, "newest_child_start", lambda table, pid: self._newest.get(pid))

    def _ticks(self):
        return self._clock() // started_ranks.ticks_to_ns(1)

    def _stat(self, pid, *proc):
        stat = process_stat(pid, *proc)
        start, parent = self._starts.get(pid, 1), self._parents.get(pid, 1)
        return stat and replace(stat, parent=parent, start_ticks=start)

    def _identify(self, pid, *proc):
        process = process_id(pid, *proc)
        return process and process._replace(start_ticks=self._starts.get(pid, 1))

    def _started(self, process, parent):
        self._parents[process.pid], self._starts[process.pid] = parent.pid, self._ticks()
        self._newest[parent.pid] = self._ticks()

    def train(self, **identity):
        """Start the rank, and let it train 50 steps."""
        self.parent = self._make(0, **{**ALONE, **identity})
        self._starts[self.parent.holder.pid] = self._ticks()
        self.parent.steps(50)
        self.wait(0.1)

    def wait(self, seconds=10.0):
        """Let the time pass, while the parent does nothing and the agent looks at it."""
        for _ in range(max(1, round(seconds))):
            self._clock.sleep(min(seconds, 1.0))
            self.suspects = self._boxes.scan()

    def start_process(self, below=None):
        """Let the parent, or the process `below`, start a process that is no rank; return it."""
        process = self.stand_in()
        self._started(process, below or self.parent.holder)
        return process

    def start_rank(self, rank=0, below=None, **identity):
        """Let the parent, or the process `below`, start a process that becomes a rank; return its box."""
        box = self._make(rank, **{"job_id": "trained", "world_size": 2, "run_uid": f"{rank:032x}", **identity})
        self._started(box.holder, below or self.parent.holder)
        self._boxes.scan()
        return box

    @property
    def state(self):
        """The state of the rank, as the agent reports it."""
        return next(state for _, state in self._boxes.ranks() if state.job_id == "tried")

    @property
    def activity_and_superseded(self):
        """The activity of the rank, and True if its launch is over."""
        return self.state.activity, self.state.superseded

    @property
    def is_suspect(self):
        """True if the last scan had the rank among its suspects."""
        return "tried" in {suspicion.job_id for suspicion in self.suspects}


def test_rank_that_waits_for_ranks_that_it_has_started_is_over(family):
    family.train()
    assert family.activity_and_superseded == WATCHED
    for rank in (0, 1):
        family.start_rank(rank)
    family.wait()
    assert family.activity_and_superseded == OVER
    assert (family.state.lease_seconds, family.state.overdue_seconds, family.is_suspect) == (None, 0.0, False)


def test_ranks_below_a_launcher_or_fork_server_count_for_the_process_that_started_it(family):
    family.train()
    launcher = family.start_process()
    family.start_rank(below=launcher)
    family.wait()
    assert family.activity_and_superseded == OVER


def test_group_of_one_rank_counts_once_it_is_joined(family):
    family.train()
    child = family.start_rank(world_size=1, backend=None)
    family.wait()
    assert family.activity_and_superseded == WATCHED
    child.writer.identity(replace(child.who, backend="gloo"))
    family.wait(0.1)
    assert family.activity_and_superseded == OVER


def test_rank_that_trains_again_is_watched_again(family):
    family.train()
    for _ in range(2):
        first = family.start_rank()
        family.wait()
        first.holder.end()
        family.wait()
        assert family.activity_and_superseded == OVER
        family.parent.steps(1)
        family.wait()
        assert (family.activity_and_superseded, family.is_suspect) == (WATCHED, True)
        family.parent.steps(300)


@pytest.mark.parametrize("trains", [False, True], ids=["it only waited", "it trained again"])
def test_rank_that_ends_well_stays_over_unless_it_trained_again(family, trains):
    family.train()
    child = family.start_rank()
    child.timeline.turn_to(DONE)
    child.holder.end()
    if trains:
        family.wait(0.1)
        family.parent.steps(1)
    family.parent.timeline.turn_to(DONE)
    family.wait(0.1)
    assert family.activity_and_superseded == ("done", not trains)
    family.parent.holder.end()
    family.wait(0.1)
    assert family.activity_and_superseded == ("done", not trains)


def train_beside_an_evaluation(family):
    """A rank evaluates in a process beside its training, and trains on while the evaluation starts."""
    family.train()
    family.start_rank()
    family.wait(0.3)
    family.parent.steps(1)


def start_a_rank_below_one_with_peers(family):
    """A rank that has peers evaluates in a process below it, and waits for that."""
    family.train(world_size=2, backend="gloo")
    family.start_rank()


def start_a_helper_without_a_group(family):
    """Start a process that computes with torch and joins nothing; it marks its steps, so it has a box."""
    family.train()
    family.start_rank(world_size=1, backend=None)
    family.wait(Leases.loader_start_seconds)


def start_loader_workers(family):
    """Let a rank start a process that is no rank, and wait for the lease of such a start."""
    family.train()
    family.start_process()
    family.wait(Leases.loader_start_seconds)


def start_ranks_of_another_script(family):
    """Start a rank below a process that the training rank has not started."""
    family.train()
    family.start_rank(below=family.start_process(below=family.stand_in()))


QUIET = {
    "a rank that evaluates in a process beside its training": train_beside_an_evaluation,
    "a rank with peers that starts a process with a group of its own": start_a_rank_below_one_with_peers,
    "a helper that computes with torch and has no process group": start_a_helper_without_a_group,
    "loader workers": start_loader_workers,
    "ranks of another script": start_ranks_of_another_script,
}


@pytest.mark.parametrize("begin", QUIET.values(), ids=QUIET)
def test_training_rank_is_not_over_and_is_a_suspect_once_it_stands_still(family, begin):
    begin(family)
    family.wait()
    assert family.activity_and_superseded == WATCHED
    assert family.is_suspect


def test_rank_that_has_just_started_processes_has_the_lease_of_a_start(family):
    family.train()
    family.start_process()
    family.wait()
    assert (family.state.lease_seconds, family.is_suspect) == (Leases.loader_start_seconds, False)
    family.parent.steps(1)
    family.wait()
    assert (family.state.lease_seconds, family.is_suspect) == (Leases.train_floor_seconds, True)


@pytest.mark.parametrize("finished", [False, True], ids=["after one of its ranks failed", "after its ranks ended well"])
def test_failure_of_a_rank_is_its_own_only_if_the_ranks_below_it_ended_well(family, finished):
    family.train()
    child = family.start_rank()
    family.wait()
    if finished:
        child.timeline.turn_to(DONE)
    child.holder.end(signal.SIGKILL)
    family.wait(0.1)
    assert family.activity_and_superseded == OVER
    family.parent.holder.end(signal.SIGKILL)
    family.wait(0.1)
    assert family.activity_and_superseded == (WATCHED if finished else OVER)
    assert family.is_suspect is finished
