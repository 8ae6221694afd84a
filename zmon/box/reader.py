"""The agent's side of the black box: reads with `pread` and checks everything it reads.

The file is never mapped, so a truncated one cannot kill the reader. Sizes and offsets come from the layout, never from
the file. Every value that is returned has passed its check.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from zmon.box import layout, live, recent, ring
from zmon.box.identity import Identity, lined_text, text, unpacked_identity
from zmon.box.layout import Collective
from zmon.box.lock import holder
from zmon.box.ring import Row
from zmon.box.steps import StepEnds
from zmon.box.versions import LAYOUTS, Cell
from zmon.errors import BoxCorrupt, BoxRefused, BoxVersion
from zmon.schema.limits import check_job_id, check_rank
from zmon.schema.measures import NS
from zmon.schema.names import ACTIVITIES, LOSS_SOURCES, OPS, PHASES, word
from zmon.schema.rank import LastWords

_TRAIN = ACTIVITIES.index("train")
_MAX_TRIES = 50  # attempts to read a value that the writer keeps changing, before it counts as damaged
_BOUNDARY_TRIES = 3  # a rank with very short steps may overwrite its last boundary while it is read
_SENDER = re.compile(re.escape(layout.SENDER_LINE) + rb"(\d{1,10}) at (\d{1,11}\.\d{9})\n")
_ENDING_SECONDS = 60.0  # last words within this time after a signal count as an effect of the signal


class Now(NamedTuple):
    """The current state of a rank; times are nanoseconds of the host's monotonic clock."""

    since: int
    activity_since: int
    step_since: int
    step: int  # the current step in training, else the last one
    sequence: int  # number of the current collective in its group; 0: it has none or an unknown one, or there is none
    num_bytes: int  # of the current collective; 0: there is none
    activity: str
    phase: str
    op: str | None  # None: the rank is in no collective
    group: int | None  # number of the process group of `op`; None: it has no number, or the rank is in no collective


class _Place(NamedTuple):
    """The values of the place cell; times are nanoseconds of the host's monotonic clock."""

    boundaries: int  # the number of boundaries written so far
    activity_since: int
    step_since: int
    step: int


class BoxReader:
    """A box that is open for reading; every method may raise BoxCorrupt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._check_prefix()
        except BaseException:
            self.close()
            raise
        status = os.fstat(self._fd)
        self.inode, self.owner = status.st_ino, status.st_uid

    def close(self) -> None:
        os.close(self._fd)

    def holder(self) -> int | None:
        """Return the pid that holds the lock of the box, or None once the rank has ended."""
        return holder(self._fd)

    def now(self) -> Now:
        """Return the current state of the rank."""
        for _ in range(_MAX_TRIES):  # the rank may change its state while it is read
            words, later_words = self._live(), self._live()
            dated = live.state(words)
            if dated is None:
                continue
            state, entered = dated.state, None
            if state.op != layout.NONE:
                entered = live.entered(words, layout.ENTERED)
                if entered is None or entered[:2] != state[2:] or live.state(later_words) != dated:
                    continue
            # The place is read after the state, because the rank writes it before the state. In the other order a new
            # activity would have the age of the previous one.
            place = self._place()
            return Now(
                since=dated.since,
                activity_since=place.activity_since,
                step_since=place.step_since,
                step=place.step if state.activity == _TRAIN else place.step - 1,
                sequence=0 if entered is None else entered.sequence,
                num_bytes=0 if entered is None else entered.num_bytes,
                activity=word(ACTIVITIES, state.activity, "activity"),
                phase=word(PHASES, state.phase, "phase"),
                op=None if state.op == layout.NONE else word(OPS, state.op, "op"),
                group=None if state.group == layout.NONE else state.group,
            )
        raise self._corrupt("its current state is damaged")

    def identity(self) -> Identity:
        """Return the identity of the rank. Raises BoxRefused if it claims a job id or a rank that cannot be."""
        try:
            identity = unpacked_identity(self._cell(self.layout.identity))
        except ValueError as error:
            raise self._corrupt(str(error)) from error
        try:
            check_job_id(identity.job_id)
            check_rank(identity.rank, identity.world_size)
        except ValueError as error:
            raise BoxRefused(
                f"zmon refuses the black box {self.path}",
                f"its identity is impossible: in job {identity.job_id} {error}",
                "Correct what sets it in the job's launch, then start the job again",
            ) from error
        return identity

    def last_boundary(self) -> Row:
        """Return the last boundary, which has the totals of the rank."""
        for _ in range(_BOUNDARY_TRIES):
            last = self._boundary(self._place().boundaries)
            if last is not None:
                return last
        raise self._corrupt("its last boundary is damaged")

    def report(self) -> dict[str, float]:
        """Return the gauges that the job reported."""
        return {name: value for name, value in self._pairs(self.layout.report) if name}

    def report_names(self) -> tuple[str, ...]:
        """Return the names of the gauges, in the order of the report cell."""
        return tuple(name for name, _ in self._pairs(self.layout.report) if name)

    def not_finite_since(self) -> dict[str, int | None]:
        """Return since which step losses are not finite, by source; None: they are finite; absent: they are unknown."""
        steps = self._cell(self.layout.losses)
        known = {source: step for source, step in zip(LOSS_SOURCES, steps, strict=True) if step != layout.UNKNOWN}
        return {source: step if step >= 0 else None for source, step in known.items()}

    def words(self) -> LastWords | None:
        """Return the last words of the rank, or None if it has left none."""
        unix_ns, kind, in_collective, type_, message, where, root = self._cell(self.layout.words)
        tail = os.pread(self._fd, layout.TAIL_READ_BYTES, self.layout.file_size)
        sender = _SENDER.match(tail)
        sender_pid, signal_time = (int(sender[1]), float(sender[2])) if sender else (None, 0.0)
        if kind > 0:
            seconds_after_signal = unix_ns * NS - signal_time
            return LastWords(
                word(layout.WORDS_KINDS, kind, "kind"),
                text(type_),
                lined_text(message),
                unix_ns * NS,
                where=text(where),
                root=lined_text(root),
                in_collective=bool(in_collective),
                sender_pid=sender_pid if 0.0 <= seconds_after_signal <= _ENDING_SECONDS else None,
                late_sender_pid=sender_pid if seconds_after_signal < 0.0 else None,
            )
        trace = tail[sender.end() :] if sender else tail
        if not trace.startswith(layout.TRACE):
            return None
        time = signal_time if sender else os.fstat(self._fd).st_mtime
        return LastWords("signal", "SIGTERM", lined_text(trace), time, sender_pid=sender_pid)

    def sequences(self) -> dict[int, int]:
        """Return the number of collectives entered so far by group; a count in the middle of a write is left out."""
        counts = live.counts(self._live())
        return {group: count for group, count in enumerate(counts) if count is not None}

    def entered(self) -> list[Collective]:
        """Return the last two collectives, the latest first; those without a known sequence are left out."""
        words = self._live()
        collectives = (live.entered(words, index) for index in (layout.ENTERED, layout.BEFORE))
        return [collective for collective in collectives if collective is not None and collective.sequence]

    def groups(self) -> dict[int, tuple[str, int]]:
        """Return name and size of each process group, by its number."""
        return {group: (name, size) for group, (name, size) in enumerate(self._pairs(self.layout.groups)) if name}

    def steps_ended(self, after_ns: int, until_ns: int, max_steps: int) -> list[StepEnds]:
        """Return the last `max_steps` steps that ended in that time; see `recent.last_steps`."""
        return recent.last_steps(self._boundary, self._place().boundaries, after_ns, until_ns, max_steps)

    def steps_spread(self, after_ns: int, until_ns: int, about: int) -> list[StepEnds]:
        """Return a sample of the steps that ended in that time, the same ones on every rank; see `recent.sample`."""
        return recent.sample(self._boundary, self._place().boundaries, after_ns, until_ns, about)

    def boundaries_after(self, after: int, max_boundaries: int) -> tuple[int, bytes]:
        """Return the oldest boundaries numbered above `after`, at most `max_boundaries` of them.

        The result is the number of the first boundary and the bytes of all of them, unchecked.
        """
        numbers = ring.readable(after, self._place().boundaries)[:max_boundaries]
        raw = ring.read(self._fd, numbers, self.layout)
        if len(raw) != len(numbers) * self.layout.boundary_size:
            raise self._corrupt("the file is truncated")
        return numbers.start, raw

    def _boundary(self, number: int) -> Row | None:
        if number < 1:
            return None
        raw = ring.read(self._fd, range(number, number + 1), self.layout)
        return ring.boundary(raw, number, self.seed)

    def _place(self) -> _Place:
        return _Place(*self._cell(self.layout.place))

    def _live(self) -> tuple[int, ...]:
        raw = os.pread(self._fd, layout.LIVE.size, self.layout.live)
        if len(raw) < layout.LIVE.size:
            raise self._corrupt("the file is truncated")
        return layout.LIVE.unpack(raw)

    def _cell(self, cell: Cell) -> tuple[Any, ...]:
        for _ in range(_MAX_TRIES):  # a fast writer may change each of the two slots just while that slot is read
            values = cell.read(self._fd, self.seed)
            if values is not None:
                return values
        raise self._corrupt("the checksums of both copies of a cell are wrong")

    def _pairs(self, cell: Cell) -> list[tuple[str, Any]]:
        """Return the names and values in a cell, which has a pair with an empty name where it has room for another."""
        values = self._cell(cell)
        return [(text(name), value) for name, value in zip(values[::2], values[1::2], strict=True)]

    def _check_prefix(self) -> None:
        raw = os.pread(self._fd, layout.PREFIX.size, 0)
        if len(raw) < layout.PREFIX.size or not raw.startswith(layout.MAGIC):
            raise self._corrupt("the file is not a black box")
        _, version, capacity, size, self.seed = layout.PREFIX.unpack(raw)
        if version not in LAYOUTS:
            raise BoxVersion(
                f"cannot read the black box {self.path}",
                f"the box has layout version {version}, this zmon reads {' and '.join(map(str, LAYOUTS))}",
                "Run the same version of zmon in the job and on the node",
            )
        self.layout = LAYOUTS[version]
        if capacity != layout.RING_CAPACITY or size != self.layout.file_size:
            raise self._corrupt("its sizes are not those of this layout version")
        if os.fstat(self._fd).st_size < self.layout.file_size:
            raise self._corrupt("the file is truncated")

    def _corrupt(self, reason: str) -> BoxCorrupt:
        hint = "zmon skips it; delete it if its job has ended"
        return BoxCorrupt(f"cannot use the black box {self.path}", reason, hint)
