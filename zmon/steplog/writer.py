"""Every step of every rank on this node goes to disk, bounded in size and age.

Called every few seconds, more often than a ring fills (4,096 boundaries: 8 s of 2 ms steps). It reads boxes with
readers of its own, so what a rank wrote last is there even after another run has taken the place of its box. Bytes are
neither decoded nor synced: an agent that is killed loses nothing that was written, a host that loses power its last
seconds.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.errors import BoxError, ZmonError
from zmon.steplog.format import MOST_BOUNDARIES, SUFFIX, Run, blocks, pack_block, pack_header, read_header

LIMIT_BYTES = 1 << 30  # 10 hours of 8 ranks at 50 steps a second, 4 days of them at 5
MAX_AGE_SECONDS = 7 * 86400.0
SEGMENT_BYTES = 4 << 20  # what is deleted at a time; about 55,000 steps
SMALLEST_BYTES = 64 << 10  # what a segment counts at least: a job that restarts all day must not leave a million files
PRUNE_SECONDS = 60.0


class StepLog:
    """The steps of this node's ranks. Not thread-safe: one `append` at a time."""

    def __init__(
        self,
        folder: Path,
        host: str,
        limit_bytes: int = LIMIT_BYTES,
        max_age_seconds: float = MAX_AGE_SECONDS,
        segment_bytes: int = SEGMENT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._host, self._clock = folder, host, clock
        self._limit_bytes, self._max_age_seconds, self._segment_bytes = limit_bytes, max_age_seconds, segment_bytes
        self._ranks: dict[Path, _RankLog] = {}
        self._pruned = 0.0

    def append(self, boxes: Mapping[Path, int]) -> tuple[str, ...]:
        """Write what is new in these boxes (inode by path), and the last of those that are no longer among them.

        Returns a line for each box that could not be read. Raises ZmonError where the log cannot be written: what was
        written stays, and the next call writes what the rings still hold.
        """
        unread: list[str] = []
        unwritten: list[ZmonError] = []
        gone = [path for path, rank in self._ranks.items() if boxes.get(path) != rank.inode]
        for path in gone:
            rank = self._ranks.pop(path)
            with _telling(path, unread, unwritten):
                rank.append()
            rank.close()
        for path in boxes:
            with _telling(path, unread, unwritten):
                if path not in self._ranks:
                    self._ranks[path] = _RankLog(path, self._host, self._folder, self._segment_bytes)
                self._ranks[path].append()
        now = self._clock()
        if abs(now - self._pruned) > PRUNE_SECONDS:
            self._pruned = now
            with _telling(self._folder, unread, unwritten):
                self._prune(now)
        if unwritten:
            raise unwritten[0]
        return tuple(unread)

    def close(self) -> None:
        """Let the boxes go."""
        while self._ranks:
            self._ranks.popitem()[1].close()

    def _prune(self, now: float) -> None:
        """Delete the segments that were written to longest ago, of whichever job; none that a rank here writes to."""
        in_use = {rank.segment for rank in self._ranks.values()}
        with _writing(self._folder):
            segments = sorted(_segments(self._folder))
            total = sum(size for _, size, _ in segments)
            for written, size, path in segments:
                if total <= self._limit_bytes and now - written <= self._max_age_seconds:
                    break
                if path not in in_use:
                    path.unlink(missing_ok=True)
                    total -= size
                    with contextlib.suppress(OSError):  # there are more in it
                        path.parent.rmdir()


class _RankLog:
    """One run of a rank, from its box to its segments."""

    def __init__(self, path: Path, host: str, folder: Path, segment_bytes: int) -> None:
        self._reader = BoxReader(path)
        try:
            who = self._reader.identity()
            run = Run(who.job_id, who.attempt, who.rank, who.run_uid, host, who.start_unix, self._reader.seed)
            self._folder, self._segment_bytes = folder, segment_bytes
            self.inode = self._reader.inode
            with _writing(folder):
                self.segment, self._last, self._run = _resume(folder / who.job_id, run)
        except BaseException:
            self._reader.close()
            raise

    def append(self) -> None:
        """Write the boundaries that are not on disk yet."""
        while True:
            with _writing(self._folder):
                if self.segment is not None and not _has_room(self.segment, self._segment_bytes):
                    self.segment = None
            first, raw = self._reader.boundaries_after(self._last, MOST_BOUNDARIES)
            if not raw:
                return
            reports = self._reader.report_names()  # after the boundaries, so that what they report has its name
            if reports != self._run.reports:
                self.segment, self._run = None, replace(self._run, reports=reports)
            if self.segment is None and self._last:  # see format
                number = len(raw) // layout.BOUNDARY_SIZE
                first, raw = self._reader.boundaries_after(self._last - 1, min(number + 1, MOST_BOUNDARIES))
            last = first + len(raw) // layout.BOUNDARY_SIZE - 1
            block = pack_block(first, raw)
            with _writing(self._folder):
                if self.segment is None:
                    self.segment = _begin(self._folder / self._run.job_id / self._run.segment(first), self._run, block)
                else:
                    _write(self.segment, os.O_APPEND, block)
            self._last = last

    def close(self) -> None:
        """Let the box go."""
        self._reader.close()


def _resume(folder: Path, run: Run) -> tuple[Path | None, int, Run]:
    """The segment that an agent before this one wrote to, cut behind its last whole block, its last boundary, and the
    run as it stands there."""
    for path in sorted(folder.glob(f"{run.stem}.*{SUFFIX}"), reverse=True):
        data = path.read_bytes()
        with contextlib.suppress(ZmonError):  # it was cut off in its header
            logged, at = read_header(data)
            whole = [block for block in blocks(data, at) if block is not None]
            if whole:
                os.truncate(path, whole[-1].end)
                return path, whole[-1].last, logged
    return None, 0, run


def _has_room(segment: Path, segment_bytes: int) -> bool:
    """Not where it is full, nor where somebody deleted it."""
    try:
        return segment.stat().st_size < segment_bytes
    except FileNotFoundError:
        return False


def _begin(segment: Path, run: Run, block: bytes) -> Path:
    segment.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write(segment, os.O_CREAT | os.O_TRUNC, pack_header(run) + block)
    except OSError:
        segment.unlink(missing_ok=True)
        raise
    return segment


def _write(segment: Path, flags: int, data: bytes) -> None:
    """All of it or nothing, as far as the disk lets us."""
    fd = os.open(segment, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o644)
    try:
        end = os.fstat(fd).st_size
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError:
            os.ftruncate(fd, end)
            raise
    finally:
        os.close(fd)


def _segments(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each was written to and what it counts."""
    for job in _entries(folder):
        if job.is_dir(follow_symlinks=False):
            for entry in _entries(job.path):
                if entry.name.endswith(SUFFIX):
                    stat = entry.stat(follow_symlinks=False)
                    yield stat.st_mtime, max(stat.st_size, SMALLEST_BYTES), Path(entry.path)


def _entries(folder: Path | str) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return ()


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What goes wrong with the log itself, not with a box; the same line each time, so that it is said once."""
    try:
        yield
    except OSError as error:
        raise ZmonError(
            f"cannot write the step log {folder}",
            error.strerror or str(error),
            "Free some room there or point ZMON_DATA_DIR at another directory; the rest goes on",
        ) from error


@contextlib.contextmanager
def _telling(path: Path, unread: list[str], unwritten: list[ZmonError]) -> Iterator[None]:
    """One box that cannot be read never hides the others."""
    try:
        yield
    except BoxError as error:
        unread.append(str(error))
    except ZmonError as error:
        unwritten.append(error)
    except FileNotFoundError:  # the box, since the agent looked
        pass
    except OSError as error:
        unread.append(f"cannot read {path}: {error.strerror}")
