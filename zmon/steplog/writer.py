"""Writes every step of every rank on this node to disk, limited in size and age.

The agent calls it every few seconds, more often than a ring fills (4,096 boundaries: 8 s of 2 ms steps). It has its own
readers of the boxes, so it gets the last steps of a rank even after another run has replaced its box. Bytes are neither
decoded nor synced: a killed agent loses nothing that was written, and a host that loses power loses its last seconds.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from zmon.box.reader import BoxReader
from zmon.errors import BoxError, ZmonError
from zmon.steplog.files import FILE_MODE, FOLDER_MODE, SteadyClock, child_path, write_all
from zmon.steplog.format import (
    MAX_BOUNDARIES,
    SUFFIX,
    Run,
    blocks,
    ends_in_header,
    pack_block,
    pack_header,
    read_header,
)

LIMIT_BYTES = 1 << 30  # 10 hours of 8 ranks at 50 steps per second, or 4 days at 5 steps per second
MAX_AGE_SECONDS = 7 * 86400.0
SEGMENT_BYTES = 4 << 20  # the unit that is deleted; about 55,000 steps
# A segment counts as at least this size, because a job that restarts all day must not leave a million files.
SMALLEST_BYTES = 64 << 10
PRUNE_SECONDS = 60.0  # between two deletions of old segments


class StepLog:
    """The log of all steps of this node's ranks. It is not thread-safe."""

    def __init__(
        self,
        folder: Path,
        host: str,
        limit_bytes: int = LIMIT_BYTES,
        max_age_seconds: float = MAX_AGE_SECONDS,
        segment_bytes: int = SEGMENT_BYTES,
        clock: Callable[[], float] = time.time,
        steady: SteadyClock | None = None,
    ) -> None:
        self._folder, self._host, self._clock = folder, host, clock
        self._limit_bytes, self._max_age_seconds, self._segment_bytes = limit_bytes, max_age_seconds, segment_bytes
        self._ranks: dict[Path, _RankLog] = {}
        self._pruned_at = 0.0
        self._steady = steady or SteadyClock(clock)

    def append(self, boxes: Mapping[Path, int], job_ids: Mapping[Path, str] = MappingProxyType({})) -> tuple[str, ...]:
        """Write the new boundaries of these boxes (inode by path), and the last ones of boxes that are gone.

        `job_ids` has another job id for each box whose job id also belongs to a job of another user. Returns one line
        for each box that could not be read. Raises ZmonError if the log cannot be written: the blocks that are written
        stay, and the next call writes the boundaries that are still in the rings.
        """
        unread: list[str] = []
        unwritten: list[ZmonError] = []
        ended = [path for path, rank in self._ranks.items() if boxes.get(path) != rank.inode]
        for path in ended:
            rank = self._ranks.pop(path)
            with _collecting_errors(path, unread, unwritten):
                rank.append()
            rank.close()
        for path in boxes:
            with _collecting_errors(path, unread, unwritten):
                if path not in self._ranks:
                    self._ranks[path] = _RankLog(path, job_ids.get(path), self._host, self._folder, self._segment_bytes)
                self._ranks[path].append()
        now = self._clock()
        if abs(now - self._pruned_at) > PRUNE_SECONDS:
            with _collecting_errors(self._folder, unread, unwritten):
                if not self._pruned_at:
                    self._folder.chmod(FOLDER_MODE)  # files of earlier versions are readable for all users
                self._prune(now)
            self._pruned_at = now
        if unwritten:
            raise unwritten[0]
        return tuple(unread)

    def close(self) -> None:
        while self._ranks:
            self._ranks.popitem()[1].close()

    def _prune(self, now: float) -> None:
        """Delete the oldest segments to which no rank is writing; for their age only if the clock is steady."""
        max_age = self._max_age_seconds if self._steady.is_steady() else math.inf
        in_use = {rank.segment for rank in self._ranks.values()}
        with _writing(self._folder):
            segments = sorted(_segments(self._folder))
            total = sum(size for _, size, _ in segments)
            for written, size, path in segments:
                if total <= self._limit_bytes and now - written <= max_age:
                    break
                if path not in in_use:
                    path.unlink(missing_ok=True)
                    total -= size
                    with contextlib.suppress(OSError):  # the folder still has other segments
                        path.parent.rmdir()


class _RankLog:
    """Copies one run of a rank from its box to its segments."""

    def __init__(self, path: Path, job_id: str | None, host: str, folder: Path, segment_bytes: int) -> None:
        self._reader = BoxReader(path)
        try:
            rank = self._reader.identity()
            run = Run(
                job_id=job_id or rank.job_id, attempt=rank.attempt, rank=rank.rank, run_uid=rank.run_uid, host=host,
                start=rank.start_unix, seed=self._reader.seed, box_version=self._reader.layout.version,
            )  # fmt: skip
            self._folder, self._segment_bytes = folder, segment_bytes
            self.inode = self._reader.inode
            with _writing(folder):
                self.segment, self._last, self._run = _resume(child_path(folder, run.job_id), run)
        except BaseException:
            self._reader.close()
            raise

    def append(self) -> None:
        """Write the boundaries that are not on disk yet, in blocks, and begin new segments where they are needed."""
        size = self._run.boundary_size
        folder = child_path(self._folder, self._run.job_id)
        while True:
            with _writing(self._folder):
                if self.segment is not None and not _has_space(self.segment, self._segment_bytes):
                    self.segment = None
            first, raw = self._reader.boundaries_after(self._last, MAX_BOUNDARIES)
            if not raw:
                return
            reports = self._reader.report_names()  # read after the boundaries, so that all their reports have names
            if reports != self._run.reports:
                self.segment = None
                self._run = replace(self._run, reports=reports)
            if self.segment is None and self._last:  # a segment begins with the last boundary of the one before
                number = len(raw) // size
                first, raw = self._reader.boundaries_after(self._last - 1, min(number + 1, MAX_BOUNDARIES))
            last = first + len(raw) // size - 1
            block = pack_block(first, raw, size)
            with _writing(self._folder):
                if self.segment is None:
                    self.segment = _begin(child_path(folder, self._run.segment(first)), self._run, block)
                else:
                    _write(self.segment, os.O_APPEND, block)
            self._last = last

    def close(self) -> None:
        self._reader.close()


def _resume(folder: Path, run: Run) -> tuple[Path | None, int, Run]:
    """Return the segment in which an earlier agent stopped, its last boundary, and the run from its header.

    The segment is cut after its last complete block. Without such a segment the result is None, 0 and `run`.
    """
    for path in sorted(folder.glob(f"{run.stem}.*{SUFFIX}"), reverse=True):
        data = path.read_bytes()
        with contextlib.suppress(ZmonError):  # it ends within its header
            logged, offset = read_header(data)
            complete = [block for block in blocks(data, offset) if block is not None]
            if complete:
                os.truncate(path, complete[-1].end)
                return path, complete[-1].last, logged
    return None, 0, run


def _has_space(segment: Path, segment_bytes: int) -> bool:
    """Return False if the segment is full, or if somebody deleted it."""
    try:
        return segment.stat().st_size < segment_bytes
    except FileNotFoundError:
        return False


def _begin(segment: Path, run: Run, block: bytes) -> Path:
    """Write a new segment with its first block, and return its path."""
    for folder in (segment.parent.parent, segment.parent):  # `parents` makes folders that all users may read
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    _keep_unusable(segment)
    try:
        _write(segment, os.O_CREAT | os.O_TRUNC, pack_header(run) + block)
    except OSError:
        segment.unlink(missing_ok=True)
        raise
    return segment


def _keep_unusable(segment: Path) -> None:
    """Rename a segment that is damaged or of another version, because a new one needs its name."""
    try:
        data = segment.read_bytes()
        read_header(data)
    except FileNotFoundError:
        return
    except ZmonError:
        if not ends_in_header(data):
            segment.rename(segment.with_name(segment.name.removesuffix(SUFFIX) + f".unusable{SUFFIX}"))


def _write(segment: Path, flags: int, data: bytes) -> None:
    """Write all of the data or nothing, as far as the disk allows it."""
    fd = os.open(segment, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, FILE_MODE)
    try:
        end = os.fstat(fd).st_size
        try:
            write_all(fd, data)
        except OSError:
            os.ftruncate(fd, end)
            raise
    finally:
        os.close(fd)


def _segments(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield each segment with the time at which it was last written and the bytes that it counts for."""
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
    """Turn an OSError of the log itself into a ZmonError. Its text is the same each time, so that it is logged once."""
    try:
        yield
    except OSError as error:
        raise ZmonError(
            f"cannot write the step log {folder}",
            error.strerror or str(error),
            "Free some space there or set ZMON_DATA_DIR to another directory; everything else continues",
        ) from error


@contextlib.contextmanager
def _collecting_errors(path: Path, unread: list[str], unwritten: list[ZmonError]) -> Iterator[None]:
    """Collect the error of one box, so that it never hides the other boxes."""
    try:
        yield
    except BoxError as error:
        unread.append(str(error))
    except ZmonError as error:
        unwritten.append(error)
    except FileNotFoundError:  # the box was deleted since the agent listed it
        pass
    except OSError as error:
        unread.append(f"cannot read {path}: {error.strerror}")
