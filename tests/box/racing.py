"""A rank that writes as fast as it can, and what every answer about it must be.

It goes through the same cycle again and again on a clock that moves by the same time at every reading, with amounts
that grow with the number of the cycle. So every number in the box is a polynomial of second degree in that number, and
three cycles of a twin, looked at one act at a time, tell what all others look like.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.boxes import IDENTITY, Clock
from zmon.box import BoxWriter
from zmon.box.boundary import Totals
from zmon.box.reader import BoxReader, Now
from zmon.probe.ledger import Ledger
from zmon.probe.rank import CHECKPOINT, EVAL, OP_NUMBER, PHASE_NUMBER, TRAIN, RankTimeline
from zmon.schema.rank import LastWords
from zmon.schema.step import StepRecord

TICK_NS = 97  # near enough to a real rank's: what is torn differs by little
LIFE_SECONDS = 120  # of a writer that nobody ends


class Ticking(Clock):
    """A clock that moves at every reading."""

    def __call__(self) -> int:
        self.ns += TICK_NS
        return self.ns


class Racer:
    """The rank, one act at a time."""

    def __init__(self, path: Path) -> None:
        self.clock = Ticking()
        self.box = BoxWriter(path)
        self.identify(0)
        self.ledger = Ledger(self.box, network_known=True)
        self.line = RankTimeline(self.box, self.ledger, clock=self.clock)
        self.groups = [self.line.group("0", 8), self.line.group("tables", 4)]
        self.line.turn_to(TRAIN)
        self.tell(0)
        self.box.publish()

    def identify(self, cycle: int) -> None:
        """Who it is; the device tells the cycle."""
        self.box.identity(replace(IDENTITY, pid=os.getpid(), start_ns=cycle, device=f"cuda:{cycle}"))

    def tell(self, cycle: int) -> None:
        """Gauges and words."""
        self.ledger.report({"one": cycle, "two": 2.0 * cycle, "three": 3.0 * cycle})
        self.line.last_words("exception", f"Type{cycle}", f"{cycle} " + "m" * (cycle % 900))

    def acts(self, cycle: int) -> Iterator[Callable[[], Any]]:
        """Two steps, an evaluation, a step, a checkpoint; each act changes the state at most once."""
        line = self.line
        for turn in (None, EVAL, CHECKPOINT):
            if turn is not None:
                yield lambda turn=turn: line.turn_to(turn)
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
        yield lambda: self.tell(cycle)
        yield lambda: self.identify(cycle)

    def collective(self, op: str, group: int, sent: int, received: int) -> Iterator[Callable[[], Any]]:
        """It begins, and it ends."""
        yield lambda: self.line.enter_op(OP_NUMBER[op], self.groups[group], sent, received)
        yield self.line.leave_op


def flat(answer: Any) -> dict[str, Any]:
    """Every number in an answer as an integer, by where it stands in it; what is no number as it is."""
    found: dict[str, Any] = {}

    def walk(at: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{at}.{key}", inner)
        elif isinstance(value, tuple | list):
            for number, inner in enumerate(value):
                walk(f"{at}.{number}", inner)
        else:
            found[at] = round(value * 1e9) if isinstance(value, float) else value

    walk("", answer)
    return found


def _extended(seen: list[dict[str, Any]], cycle: int) -> dict[str, Any]:
    """What the second, third and fourth cycle tell of any other one."""
    one, two, three = seen
    assert one.keys() == two.keys() == three.keys()
    told = {}
    for at, first in one.items():
        if isinstance(first, int):
            slope, bend = two[at] - first, three[at] - 2 * two[at] + first
            n = cycle - 1
            told[at] = first + n * slope + n * (n - 1) // 2 * bend
        else:
            assert first == two[at] == three[at]
            told[at] = first
    return told


def _told(totals: Totals) -> dict[str, Any]:
    told = flat(astuple(totals))
    told.pop(".2")  # the wall-clock time of the last step
    return told


class Model:
    """What every answer about a racer must be."""

    def __init__(self, root: Path) -> None:
        twin = Racer(root / "twin" / "job" / "0" / "rank-0.box")
        reader = BoxReader(twin.box.path)
        self.states: dict[int, list[dict[str, Any]]] = {}  # by where in the cycle since when: state, then place
        self.records: dict[int, list[dict[str, Any]]] = {}  # by where in the cycle the number
        self.totals: dict[int, list[dict[str, Any]]] = {}  # by how many steps
        starts, numbers, sequences = [], [], []
        for cycle in range(4):
            starts.append(twin.clock.ns)
            numbers.append(twin.ledger.boundaries)
            sequences.append(reader.sequences())
            for act in twin.acts(cycle):
                act()
                now, totals = reader.now(), reader.totals()
                if cycle and now.since > starts[-1]:
                    seen = self.states.setdefault(now.since - starts[-1], [])
                    if len(seen) < cycle:
                        seen.append(flat(now))
                if cycle and twin.ledger.boundaries > numbers[-1]:
                    known = self.totals.setdefault(twin.ledger.boundaries - numbers[-1], [])
                    if len(known) < cycle:
                        known.append(_told(totals))
        starts.append(twin.clock.ns)
        numbers.append(twin.ledger.boundaries)
        self.start, self.length = starts[0], starts[2] - starts[1]
        assert {b - a for a, b in pairwise(starts)} == {self.length}
        self.first, self.per_cycle = numbers[0], numbers[2] - numbers[1]
        self.sequences = {group: (sequences[0][group], sequences[2][group] - sequences[1][group]) for group in range(8)}
        for number, record in reader.records(numbers[1]):
            cycle, place = divmod(number - self.first - 1, self.per_cycle)
            if cycle:
                self.records.setdefault(place, []).append(flat(astuple(record)))
        self.places = {seen[0][".2"] - starts[1]: seen for seen in self.states.values()}
        self.by_steps = {seen[0][".0"] - 3: seen for seen in self.totals.values() if seen}
        reader.close()

    def cycle(self, ns: int) -> tuple[int, int]:
        """In which cycle a moment is, and where."""
        cycle, at = divmod(ns - self.start - 1, self.length)
        return cycle, at + 1

    def check_now(self, now: Now) -> None:
        """State and numbers of one moment, and the place of the same or a later one."""
        cycle, at = self.cycle(now.since)
        expected, found = _extended(self.states[at], cycle), flat(now)
        state = (".0", ".4", ".5", ".6", ".7", ".8", ".9")
        assert {k: found[k] for k in state} == {k: expected[k] for k in state}
        assert now.step_since >= expected[".2"]
        cycle, at = self.cycle(now.step_since)
        place = _extended(self.places[at], cycle)
        assert (now.activity_since, now.step_since) == (place[".1"], place[".2"])
        works_on = place[".3"] + (place[".6"] != "train")
        assert now.step + (now.activity != "train") == works_on

    def check_record(self, number: int, record: StepRecord) -> None:
        """One step."""
        cycle, place = divmod(number - self.first - 1, self.per_cycle)
        assert flat(astuple(record)) == _extended(self.records[place], cycle)

    def check_totals(self, totals: Totals) -> None:
        """One of the boundaries after so many steps."""
        cycle = (totals.steps - 1) // 3
        candidates = [seen for seen in self.totals.values() if (seen[0][".0"] - 3 * 1) % 3 == totals.steps % 3]
        told = _told(totals)
        assert any(told == _extended(seen, c) for seen in candidates for c in (cycle - 1, cycle, cycle + 1))

    def check_sequences(self, sequences: dict[int, int], after: Now) -> None:
        """No group is further than the rank is a moment later."""
        cycle, _ = self.cycle(after.since)
        for group, sequence in sequences.items():
            first, per_cycle = self.sequences[group]
            assert first <= sequence <= first + per_cycle * (cycle + 1)


def check_told(report: dict[str, float], words: LastWords | None) -> None:
    """Gauges and words of one cycle each."""
    one = report["one"]
    assert report == {"one": one, "two": 2 * one, "three": 3 * one}
    assert words is not None
    cycle = int(words.type.removeprefix("Type"))
    assert words.message == f"{cycle} " + "m" * (cycle % 900)


def main(path: Path) -> None:
    """Write until killed."""
    racer = Racer(path)
    end = time.monotonic() + LIFE_SECONDS
    cycle = 0
    while time.monotonic() < end:
        for act in racer.acts(cycle):
            act()
        cycle += 1
        if cycle == 5:
            print("ready", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
