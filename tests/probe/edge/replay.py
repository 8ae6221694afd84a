"""Replay one script of events through an edge of the probe: two edges must write the same box, byte for byte.

    python -m tests.probe.edge.replay FIRST LAST LENGTH [NATIVE]

replays the scripts of these seeds through both edges, with the C edge of the file NATIVE if it is given. It needs
neither torch nor pytest, so that a sanitized build can be tested. Most modules of zmon are imported in the functions,
because `main` has to put the C edge of the file in place first.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

NATIVE = "zmon.probe.edge.native"  # the module of the C edge
BYTES = 10**12  # more than a collective moves
ATTRIBUTES = (
    "current_phase", "activity", "step", "since", "autograd_depth", "step_pending", "_in_op", "_op", "_slot",
    "_entered", "_step_since", "_activity_since",
)  # fmt: skip

Event = tuple[Any, ...]  # the name of a method of `Replay` and its arguments


def script(random: Random, length: int, nested: bool = False) -> list[Event]:
    """Return random events, most of them those of a training step."""
    return [_event(random, nested) for _ in range(length)]


def _event(random: Random, nested: bool) -> Event:
    """Return a random event; `nested`: it is part of the events of another thread, so it has none of its own."""
    from zmon.box.layout import MAX_GROUPS, NONE
    from zmon.schema.names import ACTIVITIES, OPS, PHASES

    op = random.randrange(len(OPS))
    group = random.choice((*range(MAX_GROUPS), NONE))
    sent, received = random.randrange(BYTES), random.randrange(BYTES)
    common: list[Event] = [
        ("pass_time", random.randrange(10**7)),
        ("phase", random.randrange(len(PHASES))),
        ("enter_op", op, group, sent, received),
        ("leave_op", None, random.choice((False, True))),
        ("leave_op", random.randrange(10**9), False),
        ("wait_op", op, group, sent),
        ("end_step",),
        ("begin_step", random.choice((None, None, None, random.randrange(10**6)))),
    ]
    rare: list[Event] = [
        ("enter_counted", op, group, sent, random.randrange(5000)),
        ("count_op", op, group, sent, received, random.randrange(4)),
        ("sequence", op, group),
        ("turn_to", random.randrange(len(ACTIVITIES))),
        ("work", random.choice((None, 32, 2**62 - 1, -1, 2.0, "x")), random.choice((None, 7))),
        ("work", 8, None, random.choice((None, 10**12, 2**62 - 1, -1, 2e9, "x")), random.choice((None, 10**6))),
        ("counted", random.choice((0, 10**15, 2**62 - 1)), random.choice((0, 32, 7))),
        ("report", random.choice(("loss", "auc", "a", "b", "c")), random.choice((0.5, float("nan"), "x"))),
        ("note_checkpoint",),
        ("load", random.randrange(2), random.randrange(100)),
        ("call", random.randrange(2), random.randrange(100)),
        ("end_backward",),
        ("set", "step_pending", random.choice((False, True))),
        ("set", "autograd_depth", random.randrange(2)),
        ("spend", random.randrange(10**5)),
        ("drop",),
        ("memory", random.choice((None, (1, 2, random.randrange(10**9))))),
        ("traffic", random.choice((None, (random.randrange(10**12), random.randrange(10**12))))),
        ("group", str(random.randrange(10)), 4),
        ("begin_step", random.choice((-1, "seven", 1.5, 2**70))),
        ("issue",),
        ("adopt_thread",),
    ]
    if not nested and random.random() < 0.03:
        return "in_thread", script(random, random.randrange(1, 6), nested=True)
    return random.choice(common if random.random() < 0.8 else rare)


@dataclass
class Clock:
    """A clock that advances by a nanosecond at each reading."""

    ns: int = 10**12

    def __call__(self) -> int:
        self.ns += 1
        return self.ns


@dataclass
class RecordedWords:
    """The live words, which also record the order in which they are stored."""

    live: Any
    stores: list[int]

    def __getitem__(self, index: int) -> int:
        return self.live[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.stores.append(index)
        self.live[index] = value


@dataclass
class Replay:
    """A rank whose events are replayed through one edge; `answers` has what the rank could see after each event."""

    folder: Path
    edge: Any
    with_interface: bool = True
    clock: Clock = field(default_factory=Clock)
    answers: list[str] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)  # live words in the order of the stores, if the edge records them

    def __post_init__(self) -> None:
        from zmon.box import BoxWriter
        from zmon.probe.interface import JobInterface

        # One thread for all events that happen elsewhere: a new thread may get the ident of one that has ended.
        self.other_thread = ThreadPoolExecutor(max_workers=1)
        self.counters = self.folder / "class/net/eth0/statistics"
        self.counters.mkdir(parents=True)
        self.traffic((10**6, 10**6))
        with mock.patch("os.urandom", bytes):  # the same seed in each box
            self.writer = BoxWriter(self.folder / "job/0/rank-0.box")
        interface = JobInterface("eth0", self.folder) if self.with_interface else None
        self.timeline = self.edge.make_timeline(
            self.writer, interface, clock=self.clock, unix_clock=lambda: 10**18 + self.clock.ns
        )
        self.ledger = self.timeline.ledger
        self.take_stores()
        self.stores.clear()  # those of the start
        if self.edge.name == "python":
            self.timeline._live = RecordedWords(self.writer.live, self.stores)

    def replay(self, events: Iterable[Event]) -> None:
        """Call the methods of the events, here or in the timeline or its ledger."""
        for name, *arguments in events:
            owner = next(
                owner for owner in (self, self.timeline, self.ledger, self.ledger.samples) if hasattr(owner, name)
            )
            try:
                answer = getattr(owner, name)(*arguments)
            except (TypeError, ValueError, OverflowError) as error:
                answer = type(error).__name__
            self.answers.append(repr((name, answer, *(getattr(self.timeline, attribute) for attribute in ATTRIBUTES))))

    def take_stores(self) -> None:
        """Add the stores of a C edge that records them."""
        if self.edge.name == "c" and records_stores():
            self.stores += sys.modules[NATIVE].take_stores()

    def image(self) -> bytes:
        return bytes(self.writer.view)

    def counted(self, flops: int, samples: int) -> None:
        self.ledger.counted_flops, self.ledger.counted_samples = flops, samples

    def pass_time(self, nanoseconds: int) -> None:
        self.clock.ns += nanoseconds

    def leave_op(self, issued: int | None, in_flight: bool) -> None:
        self.timeline.leave_op(None if issued is None else self.clock.ns - issued, in_flight)

    def enter_counted(self, op: int, group: int, num_bytes: int, sequence: int) -> bool:
        return self.timeline.enter_op(op, group, num_bytes, 0, 0, sequence)

    def report(self, key: str, value: Any) -> None:
        self.ledger.report({key: value}, self.timeline.step)

    def set(self, name: str, value: Any) -> None:
        setattr(self.timeline, name, value)

    def spend(self, nanoseconds: int) -> None:
        self.timeline.overhead_ns += nanoseconds

    def drop(self) -> None:
        self.ledger.dropped += 1

    def memory(self, reading: tuple[int, int, int] | None) -> None:
        self.ledger.memory_reader = lambda: reading

    def traffic(self, counters: tuple[int, int] | None) -> None:
        for index, name in enumerate(("tx_bytes", "rx_bytes")):
            (self.counters / name).write_text("" if counters is None else f"{counters[index]}\n")

    def in_thread(self, events: list[Event]) -> None:
        self.other_thread.submit(self.replay, events).result()


def records_stores() -> bool:
    """Return True if the C edge was built so that it records its stores."""
    return hasattr(sys.modules.get(NATIVE), "take_stores")


def difference(events: list[Event], with_interface: bool = True) -> str:
    """Replay the events through both edges; return where they differ, "" if nowhere."""
    from zmon.probe import edge

    with tempfile.TemporaryDirectory() as folder:
        ranks = [Replay(Path(folder, chosen.name), chosen, with_interface) for chosen in (edge.PYTHON, edge.C)]
        for rank in ranks:
            rank.replay(events)
            rank.take_stores()
        python, native = ranks
        if records_stores() and python.stores != native.stores:
            return f"order of stores in {events}: {python.stores} in Python, {native.stores} in C"
        for number, (expected, answer) in enumerate(zip(python.answers, native.answers, strict=True)):
            if expected != answer:
                return f"event {number} of {events}: {expected} in Python, {answer} in C"
        expected_image, image = python.image(), native.image()
        if image == expected_image:
            return ""
        offsets = [offset for offset in range(len(image)) if image[offset] != expected_image[offset]]
        return f"bytes {offsets[:8]} after {events}"


def main(first: str, last: str, length: str, native: str = "") -> None:
    """Replay the scripts of the seeds `first` to `last` - 1 through both edges; `native` is the file of a C edge."""
    if native:
        spec = importlib.util.spec_from_file_location(NATIVE, native)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[NATIVE] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    for seed in range(int(first), int(last)):
        if where := difference(script(Random(seed), int(length))):
            raise SystemExit(f"seed {seed}: {where}")
    compared = "bytes and order of stores" if records_stores() else "bytes"
    print(f"{int(last) - int(first)} scripts of {length} events: no difference in {compared}")


if __name__ == "__main__":
    main(*sys.argv[1:])
