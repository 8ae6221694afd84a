"""This node: would a rank's box fit, can those there be read, does the agent look and what does it read?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import aiohttp

import zmon
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.doctor.check import TIMEOUT_SECONDS, Check
from zmon.errors import BoxError, Unreachable
from zmon.format import counted
from zmon.schema.api import SnapshotRequest, endpoints
from zmon.schema.host import SourceStatus
from zmon.web import client

_UNWATCHED = "Nobody looks at the ranks of this node: zmon agent, or zmon up; where it runs, see its /healthz."


def room_for_boxes(box_dir: Path) -> Check:
    """Can a rank started now by this user make its box? Tried with a file of that size."""
    attempt = box_dir / f".doctor-{os.getpid()}"
    existed = box_dir.exists()
    try:
        box_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(attempt, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return Check(
            "box directory",
            False,
            f"cannot write to {box_dir}: {error.strerror}",
            "Ranks train on unwatched until it is writable by the job's user, or ZMON_BOX_DIR names another.",
        )
    try:
        os.posix_fallocate(fd, 0, layout.FILE_SIZE)
    except OSError as error:
        return Check(
            "box directory",
            False,
            f"no box fits into {box_dir} ({layout.FILE_SIZE / 2**20:.1f} MiB each): {error.strerror}",
            "Ranks that start now train on unwatched. Free some room there, or point ZMON_BOX_DIR elsewhere.",
        )
    finally:
        os.close(fd)
        attempt.unlink()
        if not existed:
            box_dir.rmdir()
    return Check("box directory", True, f"{box_dir} takes a rank's box")


def boxes(box_dir: Path) -> Iterator[Check]:
    """Can the boxes that are there be read?"""
    readable = 0
    for path in sorted(box_dir.glob("*/*/rank-*.box")):
        try:
            reader = BoxReader(path)
            try:
                reader.now(), reader.identity(), reader.totals()
            finally:
                reader.close()
            readable += 1
        except (BoxError, OSError) as error:
            said = str(error) if isinstance(error, BoxError) else f"cannot read {path}: {error.strerror}"
            yield Check("box", False, said, "Its rank is not watched: start the job again with this zmon.")
    yield Check("boxes", True if readable else None, f"{readable} can be read" if readable else "no job has run here")


async def sources(session: aiohttp.ClientSession, agent: str, box_dir: Path) -> list[Check]:
    """Does the agent answer, and what does it read?"""
    try:
        report = await client.ask(session, agent, endpoints.SNAPSHOT, SnapshotRequest(), TIMEOUT_SECONDS)
    except Unreachable as error:
        return [Check("agent", False, str(error), _UNWATCHED)]
    found = [Check("agent", True, f"{agent} sees {counted(len(report.ranks), 'rank')} on {report.host}")]
    if report.box_dir and Path(report.box_dir).absolute() != box_dir.absolute():
        found = [
            Check(
                "agent",
                False,
                f"{agent} looks at {report.box_dir}, and ranks started here write to {box_dir}",
                "Give both the same ZMON_BOX_DIR.",
            )
        ]
    if report.version != zmon.__version__:
        found.append(
            Check(
                "agent version",
                False,
                f"{agent} is zmon {report.version}, and this is {zmon.__version__}",
                "It may not read the boxes of ranks started here: start the agent again with this zmon.",
            )
        )
    for source in report.sources:
        armed = None if source.absent else source.up
        why = source.error or "nothing to read on this machine" if source.absent else source.error or _reads(source)
        found.append(Check(f"source {source.name}", armed, why, "" if armed is not False else "See the agent's log."))
    return found


def _reads(source: SourceStatus) -> str:
    return f"reads, but leaves out {'; '.join(source.dropped)}" if source.dropped else "reads"
