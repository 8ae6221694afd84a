"""The agent's end of the black box: `pread` only, nothing in it is trusted unchecked.

A truncated file cannot kill a reader that never maps it; sizes and offsets come from the layout, never from
the file; every value that is handed on passed its crc.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from zmon.box import layout
from zmon.box.lock import holder
from zmon.errors import BoxCorrupt, BoxVersion
from zmon.records import ACTIVITIES, OPS, PHASES, LastWords, Measures, Memory, OpTotals, StepRecord

JOB_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}")  # a directory of its own
_NS = 1e-9


class Now(NamedTuple):
    """What the rank is doing this moment; times in nanoseconds of the host's monotonic clock."""

    counter: int
    since: int
    activity_since: int
    step_since: int
    step: int
    sequence: int
    num_bytes: int
    activity: str
    phase: str
    op: str | None
    group: int | None


@dataclass(frozen=True, slots=True)
class Identity:
    """Who wrote the box."""

    pid: int
    run_uid: str
    start_ns: int
    start_unix: float
    launcher_pid: int
    launcher_start: int  # clock ticks after boot, as in /proc/<pid>/stat
    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    attempt: int
    restart_count: int
    max_restarts: int | None
    job_id: str
    device: str
    backend: str | None
    socket: str
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything so far."""

    steps: int
    step_seconds: float
    last_step_time: float | None
    last_checkpoint_time: float | None
    memory: Memory | None
    overhead_seconds: float
    dropped_records: int
    measures: Measures


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
        *head, activity, phase, op, group = self._cell(layout.NOW)
        if activity >= len(ACTIVITIES) or phase >= len(PHASES) or not (op < len(OPS) or op == layout.NONE):
            raise self._corrupt("a state outside the vocabulary")
        op_name = None if op == layout.NONE else OPS[op]
        return Now._make([*head, ACTIVITIES[activity], PHASES[phase], op_name, None if group == layout.NONE else group])

    def identity(self) -> Identity:
        """Who wrote the box."""
        _, pid, uid, start, unix, launcher, launcher_start, *rest = self._cell(layout.IDENTITY)
        rank, local_rank, world, local_world, attempt, restarts, max_restarts, *texts = rest
        job_id, device, backend, socket, labels = map(layout.text, texts)
        if not JOB_ID.fullmatch(job_id) or not 0 <= rank < world:
            raise self._corrupt("an identity that cannot be")
        return Identity(
            pid=pid,
            run_uid=uid.hex(),
            start_ns=start,
            start_unix=unix * _NS,
            launcher_pid=launcher,
            launcher_start=launcher_start,
            rank=rank,
            local_rank=local_rank,
            world_size=world,
            local_world_size=local_world,
            attempt=attempt,
            restart_count=restarts,
            max_restarts=None if max_restarts < 0 else max_restarts,
            job_id=job_id,
            device=device,
            backend=backend or None,
            socket=socket,
            labels=self._labels(labels),
        )

    def _labels(self, encoded: str) -> dict[str, str]:
        try:
            labels = json.loads(encoded or "{}")
        except ValueError:
            labels = None
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            raise self._corrupt("labels that are none")
        return labels

    def totals(self) -> Totals:
        """Everything so far."""
        _, steps, ns, last, checkpoint, allocated, reserved, peak, overhead, dropped, *rest = self._cell(layout.TOTALS)
        return Totals(
            steps,
            ns * _NS,
            None if last < 0 else last * _NS,
            None if checkpoint < 0 else checkpoint * _NS,
            None if allocated < 0 else Memory(allocated, reserved, peak),
            overhead * _NS,
            dropped,
            _measures(rest),
        )

    def report(self) -> dict[str, float]:
        """The gauges the job reported."""
        _, *pairs = self._cell(layout.REPORT)
        return {layout.text(k): v for k, v in zip(pairs[::2], pairs[1::2], strict=True) if layout.text(k)}

    def words(self) -> LastWords | None:
        """What the rank said before it went; None if it said nothing."""
        _, unix, kind, type_, message = self._cell(layout.WORDS)
        if 0 < kind < len(layout.WORDS_KINDS):
            return LastWords(
                layout.WORDS_KINDS[kind],  # type: ignore[arg-type]
                layout.text(type_),
                layout.text(message),
                unix * _NS,
            )
        tail = os.pread(self._fd, layout.TAIL_READ_BYTES, layout.FILE_SIZE)
        if not tail:
            return None
        return LastWords("signal", "SIGTERM", layout.text(tail), os.fstat(self._fd).st_mtime)

    def sequences(self) -> dict[int, int]:
        """Collectives entered so far by group number; a counter caught in the middle of a write is left out."""
        raw = os.pread(self._fd, layout.MAX_GROUPS * layout.SEQUENCE.size, layout.SEQUENCES)
        if len(raw) < layout.MAX_GROUPS * layout.SEQUENCE.size:
            raise self._corrupt("it was cut short")
        pairs = enumerate(layout.SEQUENCE.iter_unpack(raw))
        return {group: n for group, (n, check) in pairs if n ^ check == 0xFFFF_FFFF_FFFF_FFFF}

    def groups(self) -> dict[int, tuple[str, int]]:
        """Process groups by number: name and size."""
        _, *pairs = self._cell(layout.GROUPS)
        named = enumerate(zip(pairs[::2], pairs[1::2], strict=True))
        return {group: (layout.text(name), size) for group, (name, size) in named if layout.text(name)}

    def records(self, after: int) -> list[tuple[int, StepRecord]]:
        """Step records numbered above `after` that are still in the ring, oldest first.

        A number is the record's count since the start of the rank. One that the writer overwrote meanwhile is left out.
        """
        latest = self._cell(layout.TOTALS)[1]
        first = max(after + 1, latest - layout.RING_CAPACITY + 1)
        return [(n, record) for n in range(first, latest + 1) if (record := self._record(n)) is not None]

    def records_ended(self, after_ns: int, until_ns: int, most: int) -> tuple[StepRecord, ...]:
        """The last records whose step ended in that time, oldest first, `most` of them; reads no older ones."""
        latest = self._cell(layout.TOTALS)[1]
        found: list[StepRecord] = []
        for number in range(latest, max(latest - min(most, layout.RING_CAPACITY), 0), -1):
            record = self._record(number)
            if record is None or (record.start + record.duration) / _NS <= after_ns:
                break
            if (record.start + record.duration) / _NS <= until_ns:
                found.append(record)
        return tuple(reversed(found))

    def _record(self, number: int) -> StepRecord | None:
        at = layout.RING + number % layout.RING_CAPACITY * layout.RECORD_SIZE
        values = _checked(layout.RECORD, os.pread(self._fd, layout.RECORD_SIZE, at))
        if values is None or values[0] != number:
            return None
        _, step, start, duration, peak, *measures = values
        return StepRecord(step, start * _NS, duration * _NS, _measures(measures), _known(peak))

    def _cell(self, cell: layout.Cell) -> tuple[Any, ...]:
        for _ in range(3):  # a fast writer may be in one slot as we read it and in the other as we read that
            raw = os.pread(self._fd, 2 * cell.slot_size, cell.offset)
            slots = (_checked(cell.struct, raw[at : at + cell.slot_size]) for at in (0, cell.slot_size))
            whole = [values for values in slots if values is not None]
            if whole:
                return max(whole, key=lambda values: values[0])
        raise self._corrupt("a checksum is wrong in both copies")

    def _check_prefix(self) -> None:
        raw = os.pread(self._fd, layout.PREFIX.size, 0)
        if len(raw) < layout.PREFIX.size or raw[:8] != layout.MAGIC:
            raise self._corrupt("it is not one")
        _, version, capacity, size = layout.PREFIX.unpack(raw)
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


def _checked(layout_of: Any, raw: bytes) -> tuple[Any, ...] | None:
    size = layout_of.size
    if len(raw) < size + layout.CRC.size or layout.CRC.unpack_from(raw, size)[0] != crc32(raw[:size]):
        return None
    values: tuple[Any, ...] = layout_of.unpack_from(raw)
    return values


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _measures(flat: list[int]) -> Measures:
    width = len(layout.OP_FIELDS)
    ops = {}
    for number, op in enumerate(OPS):
        at = layout.OP + number * width
        count, exposed, inflight, sent, received = flat[at : at + width]
        if count:
            ops[op] = OpTotals(count, exposed * _NS, inflight * _NS, sent, received)
    return Measures(
        {phase: ns * _NS for phase, ns in zip(PHASES, flat[layout.PHASE : layout.OP], strict=True) if ns},
        ops,
        *(_known(value) for value in flat[: layout.PHASE]),
    )
