"""Compare samples of a rank that makes no progress, to decide whether it works or nothing changes in it. Pure.

A rank that moves bytes, or whose main thread gets into other functions, works. Processor time alone does not show work:
a spin, an endless loop and a busy wait use it too.
"""

from __future__ import annotations

from dataclasses import dataclass

from zmon.job.job_frame import is_in_debugger, main_functions, without_states
from zmon.schema.api.agent import RankEvidence
from zmon.schema.standing import ProcessWork, Standing, WorkSigns

# Background threads of torch, loggers and monitors move fewer bytes: heartbeats, events, readings of /proc.
_LEAST_READ_BYTES_PER_SECOND = 1 << 20
_LEAST_WRITTEN_BYTES_PER_SECOND = 64 << 10
# A process that waits uses less than this share of one processor for heartbeats and timeouts.
_IDLE_RATIO = 0.02
_IDLE_SECONDS = 0.03  # the kernel counts processor time in ticks of 10 ms
_IDLE_BYTES = 64 << 10  # bytes that a waiting rank moves between two samples: a heartbeat, a line in a log
# The time over which samples show the present work of a rank. A save writes in bursts, because the kernel holds writes
# back for some seconds.
RECENT_SECONDS = 6.0
# The main thread of a rank that works gets into other functions within this time. In a loop over short calls, several
# samples in a row may show the same function.
CODE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class WorkSample:
    """The answer of an agent about one rank at one time."""

    time: float  # seconds of the hub's monotonic clock
    stack: str | None  # without states of threads; None: unknown
    functions: tuple[str, ...]  # of the main thread
    wait_channel: str | None
    work: ProcessWork


@dataclass(frozen=True, slots=True)
class WorkHistory:
    """The samples of one rank since its last progress: the recent samples, and the time of the last change."""

    recent: tuple[WorkSample, ...]
    num_samples: int  # of all samples, also of older ones
    unchanged_since: float
    other_code_at: float | None  # time at which its main thread last was in other functions; None: never
    asleep_since: float

    @property
    def standing(self) -> Standing:
        """The behaviour of the rank since the first sample."""
        now = self.recent[-1]
        return Standing(
            unchanged_seconds=now.time - self.unchanged_since,
            asleep_seconds=now.time - self.asleep_since,
            waits=now.work.waits,
            wait_channel=now.wait_channel,
            file_system=now.work.file_system,
            in_debugger=is_in_debugger(now.functions),
            work=_work(self.recent, self.other_code_at),
        )


def work_sample(answer: RankEvidence, time: float) -> WorkSample | None:
    """Return the sample in an agent's answer about a rank; None if the answer has no work of the process."""
    if answer.work is None:
        return None
    stack = answer.stack
    functions = main_functions(stack) if stack else ()
    return WorkSample(time, without_states(stack) if stack else None, functions, answer.wchan, answer.work)


def extended_history(earlier: WorkHistory | None, now: WorkSample) -> WorkHistory:
    """Return the history with one more sample; None as `earlier` begins a history."""
    if earlier is None:
        return WorkHistory((now,), 1, now.time, None, now.time)
    last = earlier.recent[-1]
    changed_code = bool(last.functions and now.functions and last.functions != now.functions)
    recent = (*(sample for sample in earlier.recent if now.time - sample.time <= RECENT_SECONDS), now)
    return WorkHistory(
        recent=recent if len(recent) > 1 else (last, now),
        num_samples=earlier.num_samples + 1,
        unchanged_since=earlier.unchanged_since if _is_unchanged(last, now) else now.time,
        other_code_at=now.time if changed_code else earlier.other_code_at,
        asleep_since=earlier.asleep_since if _is_asleep(last, now) else now.time,
    )


def _is_unchanged(last: WorkSample, now: WorkSample) -> bool:
    """Return True if it is known that nothing happened between two samples."""
    last_work, work = last.work, now.work
    if now.stack is None or now.stack != last.stack or work.processes != last_work.processes:
        return False
    if work.cpu_seconds - last_work.cpu_seconds > _IDLE_SECONDS + _IDLE_RATIO * (now.time - last.time):
        return False
    moved = [
        _increase(last_work.read_bytes, work.read_bytes),
        _increase(last_work.written_bytes, work.written_bytes),
        _increase(last_work.network_bytes, work.network_bytes),
    ]
    return all(num_bytes is not None and num_bytes < _IDLE_BYTES for num_bytes in moved)


def _is_asleep(last: WorkSample, now: WorkSample) -> bool:
    """Return True if it is known that the process slept at the same place in the kernel between two samples."""
    is_same_wait = bool(now.wait_channel) and now.wait_channel == last.wait_channel
    return is_same_wait and now.work.switches is not None and now.work.switches == last.work.switches


def _work(recent: tuple[WorkSample, ...], other_code_at: float | None) -> WorkSigns | None:
    """Return the signs of work in the recent samples; None if no sample shows work."""
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
    """Return the increase of a count, 0 after a child with a count has ended; None if a count is unknown."""
    return None if before is None or after is None else max(0, after - before)
