"""Changes the phase many times without any other work. The modes of the probe take turns, a block of steps each."""

from __future__ import annotations

import gc
import time

import zmon
from bench.device import Device
from bench.gpu_check.jobs.joining import join, write_record
from bench.gpu_check.records import MarkCosts, ProbeMode
from zmon import probe
from zmon.probe.rank import RankTimeline

_STEPS = 20  # of a block
_MARKS = 50  # of a step: fewer than the probe's queue of boundaries that the device has not passed
_PHASES = ("forward", "backward")


class ModeSwitch:
    """Switches the probe of this rank from mode to mode."""

    def __init__(self) -> None:
        with zmon.step():  # turns to training, which creates the events
            pass
        assert probe.current is not None
        self._timeline: RankTimeline = probe.current
        self._device_time = self._timeline.device
        self._timeline.make_device_time = None  # otherwise a turn to training would create new events

    @property
    def has_events(self) -> bool:
        """True if the probe measures times on a device."""
        return self._device_time is not None

    def to(self, mode: ProbeMode) -> None:
        """Switch to a mode between two steps."""
        timeline = self._timeline
        probe.current = None if mode is ProbeMode.ABSENT else timeline
        timeline.device = timeline.ledger.device = self._device_time if mode is ProbeMode.EVENTS else None
        timeline.turn_to(timeline.activity)  # the marks so far belong to no step


def block(device: Device) -> float:
    """Run the steps of a block; return the host's seconds per change of phase."""
    begin = time.perf_counter()
    for _ in range(_STEPS):
        with zmon.step():
            for number in range(_MARKS):
                zmon.phase(_PHASES[number % 2])
    seconds = time.perf_counter() - begin
    device.finish()
    return seconds / (_STEPS * _MARKS)


def main(folder: str, key: str, rounds: str) -> None:
    """Run blocks of all modes in turns, forward and backward, and write their costs."""
    device = join(key)
    switch = ModeSwitch()
    costs: dict[ProbeMode, list[float]] = {mode: [] for mode in ProbeMode}
    gc.collect()
    gc.freeze()
    for number in range(int(rounds) + 1):
        for mode in reversed(ProbeMode) if number % 2 else ProbeMode:
            switch.to(mode)
            seconds = block(device)
            if number:  # the first round warms up
                costs[mode].append(seconds)
    switch.to(ProbeMode.EVENTS)
    write_record(folder, MarkCosts({mode: tuple(values) for mode, values in costs.items()}, switch.has_events))
