"""A rank that writes as fast as it can, and a model that knows every value its box may hold.

The rank repeats the same cycle of writes. Its clock advances by the same time at every reading, and its amounts grow
with the number of the cycle. So every number in the box is a polynomial of second degree in the number of the cycle.
The model runs another such rank for four cycles, and reads the box of that rank after every write. The values of the
last three cycles determine those of all other cycles.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.boxes import IDENTITY, Clock, Totals, all_ends, read_totals, records_between
from zmon.box import BoxWriter, layout
from zmon.box.reader import BoxReader, Now
from zmon.box.steps import StepEnds
from zmon.probe.edge import CHOSEN
from zmon.probe.rank import CHECKPOINT, EVAL, OP_NUMBER, PHASE_NUMBER, TRAIN
from zmon.schema.rank import LastWords

TICK_NS = 97  # close to the interval of a real rank, so that torn values differ by little
LIFE_SECONDS = 120  # the writer ends by itself after this time
STEPS_PER_CYCLE = 3


class Ticking(Clock):
    """A clock that advances at every reading."""

    def __call__(self) -> int:
        self.ns += TICK_NS
        return self.ns


class Racer:
    """The rank, which makes one write at a time."""

    def __init__(self, path: Path) -> None:
        self.clock = Ticking()
        self.box = BoxWriter(path)
        self.identify(0)
        self.line = CHOSEN.make_timeline(self.box, clock=self.clock)
        self.ledger = self.line.ledger
        self.groups = [self.line.group("0", 8), self.line.group("tables", 4)]
        self.line.turn_to(TRAIN)
        self.report(0)
        self.box.publish()

    def identify(self, cycle: int) -> None:
        """Write the identity, with the number of the cycle in the device."""
        self.box.identity(replace(IDENTITY, pid=os.getpid(), start_ns=cycle, device=f"cuda:{cycle}"))

    def report(self, cycle: int) -> None:
        """Write gauges and last words of this cycle."""
        self.ledger.report({"one": cycle, "two": 2.0 * cycle, "three": 3.0 * cycle}, 1)
        message = f"{cycle} " + "m" * (cycle % 900)
        self.box.last_words(
            cycle, "exception", f"Type{cycle}", message, f"step() at train.py:{cycle}", message, cycle % 2 == 1
        )

    def writes(self, cycle: int) -> Iterator[Callable[[], Any]]:
        """Yield the writes of a cycle; each changes the state at most once."""
        line = self.line
        for activity in (None, EVAL, CHECKPOINT):
            if activity is not None:
                yield lambda activity=activity: line.turn_to(activity)
                yield from self.collective("all_reduce", 0, 16, 0)
                yield lambda: line.turn_to(TRAIN)
            yield lambda: line.begin_step(None)
            yield lambda: self.ledger.work(cycle + 1, 26 * (cycle + 1))
            for phase in ("data", "h2d", "embedding"):
                yield lambda phase=phase: line.phase(PHASE_NUMBER[phase])
            yield from self.collective("all_to_all", 1, 1000 * cycle + 8, 500 * cycle)
            yield lambda: line.phase(PHASE_NUMBER["backward"])
            yield lambda: line.count_op(OP_NUMBER["reduce_scatter"], self.groups[1], cycle, cycle)
            yield from self.collective("send", 0, cycle, 0)
            yield lambda: line.phase(PHASE_NUMBER["optimizer"])
            yield line.end_step
        yield lambda: self.report(cycle)
        yield lambda: self.identify(cycle)

    def collective(self, op: str, group: int, sent: int, received: int) -> Iterator[Callable[[], Any]]:
        """Yield the writes that begin and end a collective."""
        yield lambda: self.line.enter_op(OP_NUMBER[op], self.groups[group], sent, received)
        yield self.line.leave_op


def flat(answer: Any) -> dict[str, Any]:
    """Return the values in an answer by their path, with a float as an integer of billionths."""
    values: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{path}.{key}", inner)
        elif isinstance(value, tuple | list):
            for number, inner in enumerate(value):
                walk(f"{path}.{number}", inner)
        else:
            values[path] = round(value * 1e9) if isinstance(value, float) else value

    walk("", answer)
    return values


def _extrapolated(samples: list[dict[str, Any]], cycle: int) -> dict[str, Any]:
    """Return the values of any cycle, given the values of the second, third and fourth cycle."""
    second, third, fourth = samples
    assert second.keys() == third.keys() == fourth.keys()
    values = {}
    for path, value in second.items():
        if isinstance(value, int):
            slope, bend = third[path] - value, fourth[path] - 2 * third[path] + value
            n = cycle - 1  # cycles after the second one, whose number is 1
            values[path] = value + n * slope + n * (n - 1) // 2 * bend
        else:
            assert value == third[path] == fourth[path]
            values[path] = value
    return values


def _flat_totals(totals: Totals) -> dict[str, Any]:
    """Return the totals by path, without those of the wall clock."""
    values = flat(asdict(totals))
    values.pop(".last_step_time")
    return values


def _flat_record(ends: StepEnds) -> dict[str, Any]:
    """Return the record of a step by path."""
    (record,) = records_between([ends])
    return flat(asdict(record))


def _add_first(samples: list[dict[str, Any]], values: dict[str, Any], cycle: int) -> None:
    """Add the values of this cycle (the first cycle is 0 and has none), unless they were added before."""
    if len(samples) < cycle:
        samples.append(values)


class Model:
    """The answers that a reader of a racer's box may give."""

    def __init__(self, root: Path) -> None:
        twin = Racer(root / "twin" / "job" / "0" / "rank-0.box")
        reader = BoxReader(twin.box.path)
        self.states: dict[int, list[dict[str, Any]]] = {}  # state and place, by the offset of `since` in the cycle
        self.records: dict[int, list[dict[str, Any]]] = {}  # records by the offset of their number in the cycle
        self.totals: dict[int, list[dict[str, Any]]] = {}  # by the number of boundaries since the start of the cycle
        starts: list[int] = []  # nanoseconds at the start of each cycle, and at the end of the last one
        numbers: list[int] = []  # boundaries at these times
        sequences: list[dict[int, int]] = []  # of each group at the start of each cycle
        for cycle in range(4):
            starts.append(twin.clock.ns)
            numbers.append(twin.ledger.boundaries)
            sequences.append(reader.sequences())
            for write in twin.writes(cycle):
                write()
                now, totals = reader.now(), read_totals(reader)
                if cycle and now.since > starts[-1]:
                    _add_first(self.states.setdefault(now.since - starts[-1], []), flat(now._asdict()), cycle)
                if cycle and twin.ledger.boundaries > numbers[-1]:
                    offset = twin.ledger.boundaries - numbers[-1]
                    _add_first(self.totals.setdefault(offset, []), _flat_totals(totals), cycle)
        starts.append(twin.clock.ns)
        numbers.append(twin.ledger.boundaries)
        self.start, self.length = starts[0], starts[2] - starts[1]  # nanoseconds: start of cycle 0, length of a cycle
        assert {b - a for a, b in pairwise(starts)} == {self.length}
        self.first, self.per_cycle = numbers[0], numbers[2] - numbers[1]  # boundaries before cycle 0, and in a cycle
        self.sequences = {  # of each group at the start of cycle 0, and its growth in a cycle
            group: (sequences[0][group], sequences[2][group] - sequences[1][group])
            for group in range(layout.MAX_GROUPS)
        }
        for ends in all_ends(reader):
            cycle, offset = self.cycle_of(ends)
            if cycle > 0:
                self.records.setdefault(offset, []).append(_flat_record(ends))
        # States by the offset of their `step_since`. The first sample of a state is of the cycle with number 1.
        self.places = {samples[0][".step_since"] - starts[1]: samples for samples in self.states.values()}
        reader.close()

    def cycle_at(self, ns: int) -> tuple[int, int]:
        """Return the cycle of a moment, and its offset in the cycle."""
        cycle, offset = divmod(ns - self.start - 1, self.length)
        return cycle, offset + 1

    def check_now(self, now: Now) -> None:
        """Check state and numbers of one moment, and the place of the same or a later moment."""
        cycle, offset = self.cycle_at(now.since)
        expected, actual = _extrapolated(self.states[offset], cycle), flat(now._asdict())
        state = (".since", ".sequence", ".num_bytes", ".activity", ".phase", ".op", ".group")
        assert {path: actual[path] for path in state} == {path: expected[path] for path in state}
        assert now.step_since >= expected[".step_since"]
        cycle, offset = self.cycle_at(now.step_since)
        place = _extrapolated(self.places[offset], cycle)
        assert (now.activity_since, now.step_since) == (place[".activity_since"], place[".step_since"])
        current_step = place[".step"] + (place[".activity"] != "train")
        assert now.step + (now.activity != "train") == current_step

    def cycle_of(self, ends: StepEnds) -> tuple[int, int]:
        """Return the cycle of a step, and the offset of its boundary in the cycle."""
        return divmod(ends.end[layout.NUMBER] - self.first - 1, self.per_cycle)

    def check_record(self, ends: StepEnds) -> None:
        """Check the record of one step."""
        cycle, offset = self.cycle_of(ends)
        assert _flat_record(ends) == _extrapolated(self.records[offset], cycle)

    def check_totals(self, totals: Totals) -> None:
        """Check the totals, which may be of any boundary after so many steps."""
        cycle = (totals.steps - 1) // STEPS_PER_CYCLE
        candidates = [
            samples for samples in self.totals.values() if (samples[0][".steps"] - totals.steps) % STEPS_PER_CYCLE == 0
        ]
        values = _flat_totals(totals)
        cycles = (cycle - 1, cycle, cycle + 1)
        assert any(values == _extrapolated(samples, c) for samples in candidates for c in cycles)

    def check_sequences(self, sequences: dict[int, int], after: Now) -> None:
        """Check that no group is ahead of the rank a moment later."""
        cycle, _ = self.cycle_at(after.since)
        for group, sequence in sequences.items():
            first, per_cycle = self.sequences[group]
            assert first <= sequence <= first + per_cycle * (cycle + 1)


def check_reported(report: dict[str, float], words: LastWords | None) -> None:
    """Check that all gauges are of the same cycle, and that the last words are of a single cycle."""
    value = report["one"]
    assert report == {"one": value, "two": 2 * value, "three": 3 * value}
    assert words is not None
    cycle = int(words.type.removeprefix("Type"))
    assert words.message == f"{cycle} " + "m" * (cycle % 900)
    # The root cause is the message, cut at 511 bytes.
    assert (words.where, words.root) == (f"step() at train.py:{cycle}", words.message[:511])
    assert words.in_collective == (cycle % 2 == 1)


def main(path: Path) -> None:
    """Write cycles until the process is killed."""
    racer = Racer(path)
    end = time.monotonic() + LIFE_SECONDS
    cycle = 0
    while time.monotonic() < end:
        for write in racer.writes(cycle):
            write()
        cycle += 1
        if cycle == 5:
            print("ready", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
