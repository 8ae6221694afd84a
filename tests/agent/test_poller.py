"""How often a source is read: as often as it wants, as seldom as it costs."""

import itertools
import time

import pytest

from tests.agent.asking import FakeSource, fail
from tests.boxes import eventually
from zmon.agent import poller


@pytest.fixture
def start(monkeypatch):
    """Read a source every 10 ms, of which each reading takes so many seconds of processor time."""
    started = []

    def run(do, cpu_seconds):
        clock = itertools.chain.from_iterable((n, n + cpu_seconds) for n in itertools.count())
        monkeypatch.setattr(poller.time, "thread_time", lambda: next(clock))
        source = FakeSource("tcp", "tcp", do)
        started.append(poller.Poller("tcp", source.read, source.interval_seconds, 5.0, core_ratio=0.01))
        started[-1].start()
        return source

    yield run
    for each in started:
        each.stop()


def test_cheap_source_is_read_as_often_as_it_wants(start):
    source = start(lambda: (), cpu_seconds=0.0)
    assert eventually(lambda: source.num_reads > 3, 5)


@pytest.mark.parametrize("do", [lambda: (), fail])
def test_dear_source_is_read_less_often_be_it_up_or_down(start, do):
    """One second of every hundred."""
    source = start(do, cpu_seconds=1.0)
    assert eventually(lambda: source.num_reads, 5)
    time.sleep(0.2)  # twenty times its interval
    assert source.num_reads == 1


def test_dear_source_is_read_every_ten_seconds_at_least(start, monkeypatch):
    """What it says must not grow old."""
    monkeypatch.setattr(poller, "LONGEST_PAUSE_SECONDS", 0.05)
    source = start(lambda: (), cpu_seconds=1.0)
    assert eventually(lambda: source.num_reads > 3, 5)


def test_question_that_hangs_is_a_source_that_hangs():
    asked = poller.Poller("boxes", FakeSource("boxes", "boxes", lambda: ()).read, 60.0, 0.05)
    asked.start()
    assert eventually(lambda: asked.status, 5)
    asked.ask(lambda: time.sleep(1.0))
    assert eventually(lambda: not asked.status.up, 5)
    asked.stop()


def test_question_that_ends_in_something_odd_ends_no_source():
    def odd():
        raise SystemExit(3)

    asked = poller.Poller("boxes", FakeSource("boxes", "boxes", lambda: ()).read, 60.0, 5.0)
    asked.start()
    with pytest.raises(SystemExit):
        asked.ask(odd).result(5)
    assert asked.ask(lambda: 7).result(5) == 7
    asked.stop()
