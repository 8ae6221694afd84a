"""Read whether the host's clock follows a time server, and how far off it is.

adjtimex(2) asks the kernel and changes nothing. The offset is what the kernel still has to correct. ntpd and
systemd-timesyncd hand the measured offset to the kernel. chrony corrects the rate of the clock instead and leaves the
offset at 0, so with chrony only `synchronized` is reliable. The kernel clears `synchronized` by itself if no daemon has
confirmed the time for about nine hours.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import NamedTuple

from zmon.agent.sources.reading import Reading
from zmon.errors import SourceUnavailable
from zmon.schema.host import ClockSample

STA_UNSYNC = 0x0040
STA_NANO = 0x2000  # the offset is in nanoseconds, else in microseconds
TIME_ERROR = 5  # state of a clock that is not synchronized
_libc = ctypes.CDLL(None, use_errno=True)


class KernelClock(NamedTuple):
    """The part of adjtimex's answer that zmon uses."""

    state: int
    status: int  # flags
    offset: int


class _Timex(ctypes.Structure):
    """`struct timex` of linux/timex.h."""

    _fields_ = (
        ("modes", ctypes.c_uint),  # 0: change nothing
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 32),  # more than any kernel writes
    )


def kernel_clock() -> KernelClock:
    """Return what the kernel knows about its clock. Raises OSError if the call is not permitted."""
    timex = _Timex()
    state = _libc.adjtimex(ctypes.byref(timex))
    if state < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return KernelClock(state, timex.status, timex.offset)


class ClockSource:
    """The clock of this host."""

    name = "clock"
    field = "clock"
    interval_seconds = 10.0

    def __init__(self, ask: Callable[[], KernelClock] = kernel_clock) -> None:
        self._ask = ask

    def read(self) -> Reading:
        """Read whether the clock follows a time server, and its offset if it does."""
        try:
            return Reading(clock_sample(self._ask()))
        except OSError as error:
            raise SourceUnavailable(
                "cannot ask the kernel about its clock", f"{error.strerror}", "allow adjtimex in the seccomp profile"
            ) from error


def clock_sample(clock: KernelClock) -> ClockSample:
    """Convert the answer to seconds; the offset of a clock that is not synchronized is unknown."""
    if clock.status & STA_UNSYNC or clock.state == TIME_ERROR:
        return ClockSample(offset_seconds=None, synchronized=False)
    return ClockSample(clock.offset / (1e9 if clock.status & STA_NANO else 1e6), synchronized=True)
