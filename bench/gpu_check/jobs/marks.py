"""Changes the phase many times without any other work, in turns without zmon, with the host's clock and with events."""

from __future__ import annotations

import gc
import sys
import time

import zmon
from bench.device import Device
from bench.gpu_check.jobs.joining import join, rank
from bench.gpu_check.records import ABSENT, EVENTS, HOST_CLOCK, MarkCosts, write
from zmon import probe
from zmon.probe.rank import RankTimeline

MODES = (ABSENT, HOST_CLOCK, EVENTS)
STEPS = 20  # of a block
MARKS = 50  # of a step: fewer than the probe's queue of boundaries that the device has not passed
_PHASES = ("forward", "backward")


class Modes:
    """The modes of the probe in this rank."""

    def __init__(self) -> None:
        with zmon.step():  # turns to training, which creates the events
            pass
        assert probe.current is not None
        self._timeline: RankTimeline = probe.current
        self._device_time = self._timeline.device
        self._timeline.make_device_time = None  # else a turn to training would create the events again

    @property
    def has_events(self) -> bool:
        """True if the probe measures times on a device."""
        return self._device_time is not None

    def switch(self, mode: str) -> None:
        """Switch to a mode between two steps."""
        timeline = self._timeline
        probe.current = None if mode == ABSENT else timeline
        timeline.device = timeline.ledger.device = self._device_time if mode == EVENTS else None
        timeline.turn_to(timeline.activity)  # the marks so far belong to no step


def block(device: Device) -> float:
    """Run the steps of a block; return the host's seconds per change of phase."""
    begin = time.perf_counter()
    for _ in range(STEPS):
        with zmon.step():
            for number in range(MARKS):
                zmon.phase(_PHASES[number % 2])
    seconds = time.perf_counter() - begin
    device.finish()
    return seconds / (STEPS * MARKS)


def main(folder: str, key: str, rounds: str) -> None:
    """Run blocks of all modes in turns, forward and backward, and write their costs."""
    device = join(key)
    modes = Modes()
    costs: dict[str, list[float]] = {mode: [] for mode in MODES}
    gc.collect()
    gc.freeze()
    for number in range(int(rounds) + 1):
        for mode in reversed(MODES) if number % 2 else MODES:
            modes.switch(mode)
            seconds = block(device)
            if number:  # the first round warms up
                costs[mode].append(seconds)
    modes.switch(EVENTS)
    write(folder, rank(), MarkCosts({mode: tuple(values) for mode, values in costs.items()}, modes.has_events))


if __name__ == "__main__":
    main(*sys.argv[1:])
