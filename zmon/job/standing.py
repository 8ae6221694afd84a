"""Compare looks at a rank that makes no progress, to tell one that works from one in which nothing changes.

Moving bytes, or a main thread that gets into other functions, shows work. Processor time alone does not: a spin, an
endless loop and a busy wait use it too. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from zmon.job.job_frame import main_functions, without_states
from zmon.schema.api.agent import RankEvidence
from zmon.schema.standing import ProcessWork, Standing, WorkSigns

# Background threads of torch, loggers and monitors move less than this: heartbeats, events, readings of /proc.
_LEAST_READ_BYTES_PER_SECOND = 1 << 20
_LEAST_WRITTEN_BYTES_PER_SECOND = 64 << 10
# A process that waits uses less than this share of one processor for heartbeats and timeouts; ticks of 10 ms.
_IDLE_RATIO, _IDLE_SECONDS = 0.02, 0.03
_IDLE_BYTES = 64 << 10  # moved between two looks: a heartbeat, a line in a log
# What happened in so many seconds is what the rank does now. A save writes in bursts, because the kernel holds writes
# back for some seconds.
RECENT_SECONDS = 6.0
# The main thread gets into other functions again within this time. Looks every few seconds find a loop over short calls
# in the same one several times in a row.
CODE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Look:
    """The answer of an agent about one rank at one time."""

    time: float  # seconds of the hub's monotonic clock
    stack: str | None  # without states of threads; None: unknown
    functions: tuple[str, ...]  # of the main thread
    wait_channel: str | None
    work: ProcessWork


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks at one rank since its last progress: the recent ones, and since when nothing has changed."""

    recent: tuple[Look, ...]
    number: int  # of all looks
    unchanged_since: float
    other_code_at: float | None  # when its main thread was last found in other functions; None: never
    asleep_since: float

    @property
    def standing(self) -> Standing:
        """The behaviour of the rank since the first look."""
        now = self.recent[-1]
        return Standing(
            unchanged_seconds=now.time - self.unchanged_since,
            asleep_seconds=now.time - self.asleep_since,
            waits=now.work.waits,
            wait_channel=now.wait_channel,
            file_system=now.work.file_system,
            work=_work(self.recent, self.other_code_at),
        )


def look(answer: RankEvidence, time: float) -> Look | None:
    """Return what an answer shows about a process; None if it shows nothing."""
    if answer.work is None:
        return None
    stack = answer.stack
    functions = main_functions(stack) if stack else ()
    return Look(time, without_states(stack) if stack else None, functions, answer.wchan, answer.work)


def looks(earlier: Looks | None, now: Look) -> Looks:
    """Return the looks with one more."""
    if earlier is None:
        return Looks((now,), 1, now.time, None, now.time)
    last = earlier.recent[-1]
    changed_code = bool(last.functions and now.functions and last.functions != now.functions)
    recent = (*(each for each in earlier.recent if now.time - each.time <= RECENT_SECONDS), now)
    return Looks(
        recent=recent if len(recent) > 1 else (last, now),
        number=earlier.number + 1,
        unchanged_since=earlier.unchanged_since if _is_unchanged(last, now) else now.time,
        other_code_at=now.time if changed_code else earlier.other_code_at,
        asleep_since=earlier.asleep_since if _is_asleep(last, now) else now.time,
    )


def _is_unchanged(last: Look, now: Look) -> bool:
    """Return True if it is known that nothing happened between two looks."""
    then, work = last.work, now.work
    if now.stack is None or now.stack != last.stack or work.processes != then.processes:
        return False
    if work.cpu_seconds - then.cpu_seconds > _IDLE_SECONDS + _IDLE_RATIO * (now.time - last.time):
        return False
    moved = [
        _increase(then.read_bytes, work.read_bytes),
        _increase(then.written_bytes, work.written_bytes),
        _increase(then.network_bytes, work.network_bytes),
    ]
    return all(each is not None and each < _IDLE_BYTES for each in moved)


def _is_asleep(last: Look, now: Look) -> bool:
    switches, same = now.work.switches, now.wait_channel == last.wait_channel
    return bool(now.wait_channel) and same and switches is not None and switches == last.work.switches


def _work(recent: tuple[Look, ...], other_code_at: float | None) -> WorkSigns | None:
    """Return what shows in recent looks that the rank works; None if nothing does."""
    first, now = recent[0], recent[-1]
    seconds = now.time - first.time
    if seconds <= 0:
        return None

    def rate(before: int | None, after: int | None) -> float:
        return (_increase(before, after) or 0) / seconds

    read = rate(first.work.read_bytes, now.work.read_bytes)
    written = rate(first.work.written_bytes, now.work.written_bytes)
    network = rate(first.work.network_bytes, now.work.network_bytes)
    work = WorkSigns(
        read_bytes_per_second=read if read >= _LEAST_READ_BYTES_PER_SECOND else 0.0,
        written_bytes_per_second=written if written >= _LEAST_WRITTEN_BYTES_PER_SECOND else 0.0,
        network_bytes_per_second=network if network >= _LEAST_WRITTEN_BYTES_PER_SECOND else 0.0,
        file=now.work.file,
        in_other_code=other_code_at is not None and now.time - other_code_at <= CODE_SECONDS,
    )
    moves = work.read_bytes_per_second or work.written_bytes_per_second or work.network_bytes_per_second
    return work if moves or work.in_other_code else None


def _increase(before: int | None, after: int | None) -> int | None:
    """Return the increase of a count; 0 after the end of a child, whose bytes are lost, and None if it is unknown."""
    return None if before is None or after is None else max(0, after - before)
