"""Tests that the memory and the references of the C edge do not grow with the number of steps."""

import gc
import sys
import tracemalloc
from pathlib import Path

import pytest

from tests.probe.edge.replay import Replay
from zmon.probe import edge

MAX_GROWTH_BYTES = 4096  # far less than an object for each of 20,000 steps
MAX_GROWN_REFERENCES = 50  # likewise; the interpreter itself holds and drops some

pytestmark = pytest.mark.skipif(edge.C is None, reason="the package was built without a compiler")


def step(rank):
    """Run a step that calls each method of the hot path."""
    timeline, ledger = rank.timeline, rank.ledger
    timeline.begin_step(None)
    timeline.phase(3)
    timeline.enter_op(0, 0, 10, 20)
    timeline.leave_op(in_flight=True)
    timeline.wait_op(0, 0, 30)
    timeline.leave_op(timeline.issue() - 5)
    timeline.count_op(op=1, group=0, sent=1, received=2)
    timeline.sequence(0, 0)
    ledger.work(32, None)
    ledger.samples.call(1, 8)
    timeline.end_step()


def traced_bytes():
    """Return the bytes that the steps have allocated; other threads of the test process allocate elsewhere."""
    folders = (Path(edge.__file__).parents[1], Path(__file__).parent)  # of the probe and of these tests
    sources = [tracemalloc.Filter(inclusive=True, filename_pattern=f"{folder}/*") for folder in folders]
    snapshot = tracemalloc.take_snapshot().filter_traces(sources)
    return sum(statistic.size for statistic in snapshot.statistics("filename"))


def num_edges():
    """Return the number of timelines and ledgers of the C edge in this process."""
    return sum(isinstance(value, edge.C.timeline | edge.C.ledger) for value in gc.get_objects())


@pytest.mark.parametrize("steps", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_steps_keep_no_memory_and_no_reference(tmp_path, steps):
    rank = Replay(tmp_path, edge.C)
    watched = (None, True, False, rank.timeline, rank.ledger, rank.ledger.samples, rank.clock, rank.writer, "declared")
    for _ in range(100):
        step(rank)
    gc.collect()
    tracemalloc.start()
    references = [sys.getrefcount(value) for value in watched]
    memory = traced_bytes()
    for _ in range(steps):
        step(rank)
    gc.collect()
    grown = traced_bytes() - memory
    after = [sys.getrefcount(value) for value in watched]
    tracemalloc.stop()
    assert grown < MAX_GROWTH_BYTES
    assert max(abs(a - b) for a, b in zip(references, after, strict=True)) < MAX_GROWN_REFERENCES


def test_rank_that_is_gone_leaves_nothing(tmp_path):
    def edges_of_a_rank(folder):
        rank = Replay(folder, edge.C)
        step(rank)
        rank.timeline.itself = rank.timeline  # a cycle, which the garbage collector must find
        return num_edges()

    gc.collect()
    before = num_edges()
    assert edges_of_a_rank(tmp_path) == before + 2  # a timeline and a ledger
    gc.collect()
    assert num_edges() == before
