"""The agent's end of the black box: `pread` only, nothing in it is trusted unchecked.

A truncated file cannot kill a reader that never maps it; sizes and offsets come from the layout, never from
the file; every value that is handed on passed its crc.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

from zmon.box import layout, live, recent, ring
from zmon.box.boundary import Boundary, Totals, step_record, totals
from zmon.box.layout import Identity
from zmon.box.lock import holder
from zmon.box.ring import checked
from zmon.errors import BoxCorrupt, BoxVersion
from zmon.schema.names import ACTIVITIES, JOB_ID, OPS, PHASES
from zmon.schema.rank import LastWords
from zmon.schema.step import StepRecord

_NS = 1e-9
_TRIES = 50  # of a reading that the writer overtook, before it is called damaged
_TRACE = b"Stack (most recent call first):"  # how faulthandler begins
_LIVE = struct.Struct(f"<{layout.NUM_LIVE}q")


class Now(NamedTuple):
    """What the rank is doing this moment; times in nanoseconds of the host's monotonic clock."""

    since: int
    activity_since: int
    step_since: int
    step: int  # it is in, or the last one
    sequence: int
    num_bytes: int
    activity: str
    phase: str
    op: str | None
    group: int | None


class BoxReader:
    """One box, open for reading. Every method may raise BoxCorrupt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._check_prefix()
        except BaseException:
            self.close()
            raise
        self.inode = os.fstat(self._fd).st_ino

    def close(self) -> None:
        """Let the file go."""
        os.close(self._fd)

    def holder(self) -> int | None:
        """The pid that holds the box's lock; None once the rank is gone."""
        return holder(self._fd)

    def now(self) -> Now:
        """What the rank is doing this moment."""
        for _ in range(_TRIES):  # it may change its state while we read it
            words, again = self._live(), self._live()
            state = live.state(words)
            if state is None:
                continue
            since, activity, phase, op, group = state
            sequence = num_bytes = 0
            if op != layout.NONE:
                entered = live.entered(words, layout.ENTERED)
                if entered is None or entered[:2] != (op, group) or live.state(again) != state:
                    continue
                _, _, sequence, num_bytes = entered
            # After the state, for the rank writes it before: else a new activity would seem as old as the last one.
            _, activity_since, step_since, step = self._place()
            training = ACTIVITIES[activity] == "train"
            return Now(
                since,
                activity_since,
                step_since,
                step if training else step - 1,
                sequence,
                num_bytes,
                ACTIVITIES[activity],
                PHASES[phase],
                None if op == layout.NONE else OPS[op],
                None if group == layout.NONE else group,
            )
        raise self._corrupt("its state does not check")

    def identity(self) -> Identity:
        """Who wrote the box."""
        _, *values = self._cell(layout.IDENTITY)
        try:
            who = layout.unpacked_identity(values)
        except ValueError as error:
            raise self._corrupt(str(error)) from error
        if not JOB_ID.fullmatch(who.job_id) or not 0 <= who.rank < who.world_size:
            raise self._corrupt("an identity that cannot be")
        return who

    def totals(self) -> Totals:
        """Everything up to the last boundary."""
        for _ in range(3):  # a rank with very short steps may overwrite it meanwhile
            last = self._boundary(self._place()[0])
            if last is not None:
                return totals(last)
        raise self._corrupt("its last boundary does not check")

    def report(self) -> dict[str, float]:
        """The gauges the job reported."""
        _, *pairs = self._cell(layout.REPORT)
        return {layout.text(k): v for k, v in zip(pairs[::2], pairs[1::2], strict=True) if layout.text(k)}

    def report_names(self) -> tuple[str, ...]:
        """Of the gauges, by their place."""
        _, *pairs = self._cell(layout.REPORT)
        return tuple(layout.text(key) for key in pairs[::2] if layout.text(key))

    def words(self) -> LastWords | None:
        """What the rank said before it went; None if it said nothing."""
        _, unix, kind, type_, message = self._cell(layout.WORDS)
        if 0 < kind < len(layout.WORDS_KINDS):
            return LastWords(
                layout.WORDS_KINDS[kind],
                layout.text(type_),
                layout.text(message),
                unix * _NS,
            )
        tail = os.pread(self._fd, layout.TAIL_READ_BYTES, layout.FILE_SIZE)
        if not tail.startswith(_TRACE):
            return None
        return LastWords("signal", "SIGTERM", layout.text(tail), os.fstat(self._fd).st_mtime)

    def sequences(self) -> dict[int, int]:
        """Collectives entered so far by group number; a counter caught in the middle of a write is left out."""
        counts = live.counts(self._live())
        return {group: count for group, count in enumerate(counts) if count is not None}

    def entered(self) -> list[tuple[int, int, int, int]]:
        """The last two collectives that have a sequence, the latest first: op, group, sequence, bytes."""
        words = self._live()
        found = (live.entered(words, at) for at in (layout.ENTERED, layout.BEFORE))
        return [entered for entered in found if entered is not None and entered[2]]

    def groups(self) -> dict[int, tuple[str, int]]:
        """Process groups by number: name and size."""
        _, *pairs = self._cell(layout.GROUPS)
        named = enumerate(zip(pairs[::2], pairs[1::2], strict=True))
        return {group: (layout.text(name), size) for group, (name, size) in named if layout.text(name)}

    def records(self, after: int) -> list[tuple[int, StepRecord]]:
        """Step records of boundaries numbered above `after` that are still in the ring, oldest first.

        One that the writer overwrote meanwhile is left out.
        """
        latest = self._place()[0]
        numbers = ring.kept(after, latest)
        found: list[tuple[int, StepRecord]] = []
        before = self._boundary(numbers.start - 1)
        for number in numbers:
            boundary = self._boundary(number)
            if before is not None and boundary is not None and boundary.kind == layout.STEP:
                found.append((number, step_record(before, boundary)))
            before = boundary
        return found

    def records_ended(self, after_ns: int, until_ns: int, most: int) -> tuple[StepRecord, ...]:
        """The last records whose step ended in that time, oldest first, `most` of them; reads no older ones."""
        return recent.ended(self._boundary, self._place()[0], after_ns, until_ns, most)

    def records_spread(self, after_ns: int, until_ns: int, about: int) -> tuple[StepRecord, ...]:
        """Some records of that time, the same steps on every rank; see `recent.spread`."""
        return recent.spread(self._boundary, self._place()[0], after_ns, until_ns, about)

    def boundaries_after(self, after: int, most: int) -> tuple[int, bytes]:
        """The oldest `most` boundaries numbered above `after`: the first one's number, and their bytes, unchecked."""
        numbers = ring.kept(after, self._place()[0])[:most]
        raw = ring.read(self._fd, numbers)
        if len(raw) != len(numbers) * layout.BOUNDARY_SIZE:
            raise self._corrupt("it was cut short")
        return numbers.start, raw

    def _boundary(self, number: int) -> Boundary | None:
        if number < 1:
            return None
        return ring.boundary(ring.read(self._fd, range(number, number + 1)), number, self.seed)

    def _place(self) -> tuple[int, int, int, int]:
        _, boundaries, activity_since, step_since, step = self._cell(layout.PLACE)
        return boundaries, activity_since, step_since, step

    def _live(self) -> tuple[int, ...]:
        raw = os.pread(self._fd, _LIVE.size, layout.LIVE)
        if len(raw) < _LIVE.size:
            raise self._corrupt("it was cut short")
        return _LIVE.unpack(raw)

    def _cell(self, cell: layout.Cell) -> tuple[Any, ...]:
        for _ in range(_TRIES):  # a fast writer may be in one slot as we read it and in the other as we read that
            raw = os.pread(self._fd, 2 * cell.slot_size, cell.offset)
            slots = (checked(cell.struct, raw, self.seed, at) for at in (0, cell.slot_size))
            whole = [values for values in slots if values is not None]
            if whole:
                return max(whole, key=lambda values: values[0])
        raise self._corrupt("a checksum is wrong in both copies")

    def _check_prefix(self) -> None:
        raw = os.pread(self._fd, layout.PREFIX.size, 0)
        if len(raw) < layout.PREFIX.size or raw[:8] != layout.MAGIC:
            raise self._corrupt("it is not one")
        _, version, capacity, size, self.seed = layout.PREFIX.unpack(raw)
        if version != layout.VERSION:
            raise BoxVersion(
                f"cannot read the black box {self.path}",
                f"it has layout version {version}, this zmon reads version {layout.VERSION}",
                "run the same zmon in the job and on the node",
            )
        if capacity != layout.RING_CAPACITY or size != layout.FILE_SIZE:
            raise self._corrupt("its sizes do not belong to this version")
        if os.fstat(self._fd).st_size < layout.FILE_SIZE:
            raise self._corrupt("it was cut short")

    def _corrupt(self, why: str) -> BoxCorrupt:
        return BoxCorrupt(f"cannot use the black box {self.path}", why, "it is skipped; delete it if its job is over")
