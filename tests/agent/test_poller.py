"""Tests of the thread that reads a source: how often it reads, and how it handles questions that hang or raise."""

import itertools
import time

import pytest

from tests.agent.agent_client import FakeSource, fail, raising
from tests.boxes import eventually
from zmon.agent import poller


@pytest.fixture
def start():
    """Yield a function that starts to read a source and returns its poller."""
    pollers = []

    def run(source, interval_seconds=0.01, timeout_seconds=5.0, **options):
        started = poller.Poller(source.name, source.read, interval_seconds, timeout_seconds, **options)
        pollers.append(started)
        started.start()
        return started

    yield run
    for started in pollers:
        started.stop()


@pytest.fixture
def start_source(start, monkeypatch):
    """Return a function that starts a source with an interval of 10 ms; each read takes `cpu_seconds` of CPU time."""

    def run(read_value, cpu_seconds):
        clock = itertools.chain.from_iterable((n, n + cpu_seconds) for n in itertools.count())
        monkeypatch.setattr(poller.time, "thread_time", lambda: next(clock))
        source = FakeSource("tcp", "tcp", read_value)
        start(source, core_ratio=0.01)
        return source

    return run


@pytest.mark.parametrize(("cpu_seconds", "longest_pause"), [(0.0, 60.0), (1.0, 0.05)], ids=["cheap", "expensive"])
def test_source_is_read_at_its_interval_if_it_is_cheap_or_after_the_longest_pause(
    start_source, monkeypatch, cpu_seconds, longest_pause
):
    """The longest pause limits the age of the values."""
    monkeypatch.setattr(poller, "LONGEST_PAUSE_SECONDS", longest_pause)
    source = start_source(lambda: (), cpu_seconds)
    assert eventually(lambda: source.num_reads > 3, 5)


@pytest.mark.parametrize("read_value", [lambda: (), fail])
def test_expensive_source_is_read_less_often_also_if_reads_fail(start_source, read_value):
    """A source that takes one second is read every hundred seconds."""
    source = start_source(read_value, cpu_seconds=1.0)
    assert eventually(lambda: source.num_reads, 5)
    time.sleep(0.2)  # twenty times its interval
    assert source.num_reads == 1


def test_hanging_question_marks_the_source_down(start):
    boxes = start(FakeSource("boxes", "boxes", lambda: ()), interval_seconds=60.0, timeout_seconds=0.05)
    assert eventually(lambda: boxes.status, 5)
    boxes.ask(lambda: time.sleep(1.0))
    assert eventually(lambda: not boxes.status.up, 5)


def test_question_that_raises_system_exit_does_not_end_the_thread(start):
    boxes = start(FakeSource("boxes", "boxes", lambda: ()), interval_seconds=60.0)
    with pytest.raises(SystemExit):
        boxes.ask(raising(SystemExit(3))).result(5)
    assert boxes.ask(lambda: 7).result(5) == 7
