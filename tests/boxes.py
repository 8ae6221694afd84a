"""Write boxes as a test needs them, and start processes that hold them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.steps import Measures, StepRecord, only_records, totals_as_measures
from zmon.box import BoxWriter, box_path, layout
from zmon.box.identity import Identity
from zmon.box.reader import BoxReader
from zmon.box.steps import StepEnds, totals, whole_steps
from zmon.box.versions import Cell
from zmon.probe.edge import CHOSEN, Edge
from zmon.probe.rank import OP_NUMBER, PHASE_NUMBER
from zmon.schema import measures
from zmon.schema.measures import NS, UNKNOWN
from zmon.schema.names import ACTIVITIES

JOB = "job"
PARTS = ("identity", "now", "last_boundary", "report", "words", "groups", "sequences")  # the methods of a reader
ALL = 1 << 62  # nanoseconds, or boundaries


@dataclass
class Clock:
    """A clock in nanoseconds that moves only by `sleep`. No two readings are equal, because a box needs that."""

    ns: int = 1_000_000_000_000
    _read: int = 0

    def __call__(self) -> int:
        self._read = self.ns = max(self.ns, self._read + 1)
        return self.ns

    def sleep(self, seconds: float) -> None:
        """Move the clock."""
        self.ns += round(seconds * 1e9)


IDENTITY = Identity(
    pid=0, run_uid=b"0123456789abcdef".hex(), start_ns=1_000_000_000_000, start_unix=1_700_000_000.0,
    launcher_pid=900, launcher_start=1, rank=0, local_rank=0, world_size=2, local_world_size=2,
    attempt=0, restart_count=0, max_restarts=3, watch=0, job_id=JOB, device="cpu", backend="gloo", socket="", labels={},
)  # fmt: skip


@dataclass
class Box:
    """A box that a test writes with the code of a rank, on a scripted clock.

    A reader in the test does not see a lock of the test itself, so the rank looks dead unless a `holder` locks the box.
    The holder locks it before the box has its name, as a rank does.
    """

    root: Path
    clock: Clock = field(default_factory=Clock)
    identity: dict[str, Any] = field(default_factory=dict)
    holder: StandIn | None = None
    edge: Edge = CHOSEN

    def __post_init__(self) -> None:
        who = self.who = replace(IDENTITY, **{"pid": os.getpid(), **self.identity})
        self.path = box_path(self.root, who.job_id, who.attempt, who.rank)
        self.writer = BoxWriter(self.path)
        self.writer.identity(who)
        # Tests replace `time.time_ns`, so the lambda looks it up at each call.
        self.timeline = self.edge.make_timeline(self.writer, clock=self.clock, unix_clock=lambda: time.time_ns())
        self.ledger = self.timeline.ledger
        if self.holder is not None:
            (unpublished,) = self.path.parent.glob(f".{self.path.name}.*")
            self.release(unpublished)
            self.holder.hold(unpublished)
        self.writer.publish()
        if self.holder is None:
            self.release(self.path)

    def release(self, path: Path) -> None:
        """Drop the test's own lock, as the end of a process does: closing any descriptor of the file is enough."""
        os.close(os.open(path, os.O_RDONLY))

    def steps(self, number: int, seconds: float = 0.020) -> None:
        """Write steps, half of each in forward and half waiting in an all-to-all of 100 bytes out and 60 in."""
        for _ in range(number):
            self.timeline.begin_step(None)
            self.timeline.phase(PHASE_NUMBER["forward"])
            self.clock.sleep(seconds / 2)
            self.timeline.enter_op(OP_NUMBER["all_to_all"], self.timeline.group("0", 2), 100, 60)
            self.clock.sleep(seconds / 2)
            self.timeline.leave_op()
            self.timeline.end_step()

    def boundary(self, *numbers: tuple[int | slice, Any]) -> int:
        """Write the next boundary with these numbers, by their places in the layout, and return its own number."""
        number = self.ledger._numbers[layout.NUMBER] = self.ledger.boundaries + 1
        row = [0] * layout.VALUES + [0.0] * layout.MAX_REPORT_KEYS + [0] * measures.NUM_SLOTS
        for place, value in ((layout.NUMBER, number), *numbers):
            row[place] = value
        self.writer.boundary(memoryview(layout.BOUNDARY.pack(*row)))
        return number

    def overwrite(self, offset: int, data: bytes) -> None:
        """Overwrite bytes of the file."""
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def flip(self, offset: int) -> None:
        """Flip all bits of one byte."""
        self.overwrite(offset, bytes([self.path.read_bytes()[offset] ^ 0xFF]))

    def newest_slot(self, cell: Cell) -> int:
        """Return the offset of the slot of a cell that was written last."""
        data = self.path.read_bytes()
        slots = (cell.offset, cell.offset + cell.slot_size)
        return max(slots, key=lambda offset: cell.struct.unpack_from(data, offset)[0])


@dataclass(frozen=True)
class Totals:
    """The totals of a rank up to its last boundary."""

    steps: int
    step_seconds: float
    last_step_time: float | None
    last_checkpoint_time: float | None
    memory: tuple[int, ...] | None  # allocated, reserved, peak
    overhead_seconds: float
    dropped_records: int
    measures: Measures
    between_seconds: dict[str, float]
    time: float


def read_totals(reader: BoxReader) -> Totals:
    """Return the totals in a box."""
    last = reader.last_boundary()
    memory = tuple(last[layout.MEMORY : layout.MEMORY + layout.NUM_MEMORY])
    return Totals(
        last[layout.STEPS],
        last[layout.STEP_NS] * NS,
        _seconds(last[layout.LAST_STEP]),
        _seconds(last[layout.LAST_CHECKPOINT]),
        None if memory[0] == UNKNOWN else memory,
        last[layout.OVERHEAD] * NS,
        last[layout.DROPPED],
        totals_as_measures(totals(last)),
        {activity: ns * NS for activity, ns in zip(ACTIVITIES, last[layout.BETWEEN], strict=True) if ns},
        last[layout.TIME] * NS,
    )


def read_records(reader: BoxReader) -> list[StepRecord]:
    """Return all steps in a box."""
    return records_between(all_ends(reader))


def all_ends(reader: BoxReader) -> list[StepEnds]:
    """Return the boundaries of all steps in a box."""
    return reader.steps_ended(-1, ALL, ALL)


def records_between(ends: Sequence[StepEnds]) -> list[StepRecord]:
    """Return the steps between these boundaries."""
    return only_records(whole_steps({"": ends}))


def _seconds(ns: int) -> float | None:
    return None if ns == UNKNOWN else ns * NS


_STAND_IN = """
import fcntl, os, sys
held = []
print('ready', flush=True)
for path in sys.stdin:
    if path == 'exec\\n':
        os.execv('/bin/sleep', ['sleep', '60'])
    held.append(open(path.strip(), 'r+b'))
    fcntl.lockf(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    print('held', flush=True)
"""


class StandIn:
    """A process that looks like a rank to the kernel: it has a PID and holds locks on boxes."""

    def __init__(self) -> None:
        command = [sys.executable, "-S", "-E", "-c", _STAND_IN]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    @property
    def pid(self) -> int:
        """The PID of the process."""
        return self.process.pid

    def hold(self, path: Path) -> None:
        """Lock a box, as its rank does."""
        print(path, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "held\n"

    def become_another_program(self) -> None:
        """Replace the program of the process, as `os.execv` in a rank does."""
        print("exec", file=self.process.stdin, flush=True)

    def end(self, signal: int = 9) -> None:
        """Send a signal to the process and wait for its end."""
        if self.process.poll() is None:
            self.process.send_signal(signal)
        self.process.wait(timeout=5)


def can_lock(path: Path) -> bool:
    """Return True if no other process holds the box."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def eventually(probe: Callable[[], Any], seconds: float = 5.0) -> Any:
    """Return the first true answer of `probe`, or its last answer after these seconds."""
    deadline = time.monotonic() + seconds
    while not (answer := probe()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return answer


def read(box: Box) -> dict[str, Any]:
    """Return everything that a reader returns about a box, by method."""
    with contextlib.closing(BoxReader(box.path)) as reader:
        parts = {part: getattr(reader, part)() for part in PARTS}
        return parts | {"totals": read_totals(reader), "records": read_records(reader)}


def read_part(box: Box, name: str) -> Any:
    """Return the answer of one method of a reader."""
    with contextlib.closing(BoxReader(box.path)) as reader:
        return getattr(reader, name)()
