"""Tests of the clock source, which reads whether the clock of the host follows a time server."""

import errno
import os

import pytest

from tests.agent.agent_client import raising
from zmon.agent.sources.clock import STA_NANO, STA_UNSYNC, TIME_ERROR, ClockSource, KernelClock, kernel_clock
from zmon.errors import SourceUnavailable
from zmon.schema.host import ClockSample

TIME_OK, TIME_INS, STA_PLL = 0, 1, 0x0001  # two states of the clock and one bit of its status: linux/timex.h


def read_clock(state, status, offset):
    """Return the sample of the source if the kernel answers with this state, status and offset."""
    return ClockSource(lambda: KernelClock(state, status, offset)).read().value


@pytest.mark.parametrize(
    ("state", "status", "offset", "seconds"),
    [
        pytest.param(TIME_OK, STA_PLL, 2500, 0.0025, id="microseconds"),
        pytest.param(TIME_OK, STA_PLL | STA_NANO, -2500, -0.0000025, id="nanoseconds"),
        pytest.param(TIME_OK, STA_NANO, 0, 0.0, id="chrony leaves it at 0"),
        pytest.param(TIME_INS, STA_PLL, 0, 0.0, id="a leap second is pending"),
    ],
)
def test_clock_that_follows_a_server_shows_its_offset(state, status, offset, seconds):
    assert read_clock(state, status, offset) == ClockSample(seconds, True)


@pytest.mark.parametrize(("state", "status"), [(TIME_ERROR, STA_UNSYNC), (TIME_OK, STA_UNSYNC), (TIME_ERROR, STA_NANO)])
def test_offset_of_an_unsynchronized_clock_is_unknown_and_not_zero(state, status):
    assert read_clock(state, status, 0) == ClockSample(None, False)


def test_source_is_absent_if_the_call_is_not_permitted():
    with pytest.raises(SourceUnavailable, match="seccomp"):
        ClockSource(raising(OSError(errno.EPERM, os.strerror(errno.EPERM)))).read()


def test_clock_of_this_machine_gives_a_consistent_sample():
    clock, sample = kernel_clock(), ClockSource().read().value
    assert 0 <= clock.state <= TIME_ERROR
    is_unsynchronized = bool(clock.status & STA_UNSYNC) or clock.state == TIME_ERROR
    assert sample.synchronized == (not is_unsynchronized)
    assert (sample.offset_seconds is not None) == sample.synchronized
