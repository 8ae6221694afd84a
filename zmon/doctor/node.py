"""Checks this node: the box directory, the boxes in it, the agent, and the agent's sources."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import aiohttp

import zmon
from zmon.box.mounts import file_system
from zmon.box.reader import BoxReader
from zmon.box.roots import IN_MEMORY, PLACES, Places, check_share
from zmon.box.versions import CURRENT
from zmon.doctor.check import TIMEOUT_SECONDS, Check
from zmon.errors import BoxError, Unreachable
from zmon.format import counted, duration
from zmon.schema.api import SnapshotRequest, endpoints
from zmon.schema.host import SourceStatus
from zmon.schema.rank import RankState
from zmon.web import client

_SETTLED_STEPS = 20  # after so many steps an agent has learned the lease of training; before, the lease of init holds
_UNWATCHED = "The ranks of this node are unwatched. Start zmon agent, or zmon up; if the agent runs, see its /healthz."


def space_for_boxes(box_dir: Path) -> Check:
    """Check that a rank of this user can make its box: make a file of the same size, then remove it."""
    trial_file = box_dir / f".doctor-{os.getpid()}"
    try:
        existed = box_dir.exists()
        box_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(trial_file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        result = f"cannot write to {box_dir}{_owner_text(box_dir)}: {error.strerror}"
        until = "until the job's user can write there, or ZMON_BOX_DIR names another one in memory"
        return Check("box directory", False, result, f"Ranks are unwatched {until}.")
    try:
        check_share(box_dir, 1)
        os.posix_fallocate(fd, 0, CURRENT.file_size)
    except BoxError as error:
        return Check("box directory", False, str(error), error.next_step)
    except OSError as error:
        result = f"no box fits into {box_dir} ({CURRENT.file_size / 2**20:.1f} MiB each): {error.strerror}"
        next_step = "Free some space, or set ZMON_BOX_DIR to another one in memory."
        return Check("box directory", False, result, f"Ranks that start now are unwatched. {next_step}")
    finally:
        os.close(fd)
        trial_file.unlink()
        if not existed:
            with contextlib.suppress(OSError):  # a rank has just made its box
                box_dir.rmdir()
    kind = file_system(box_dir if existed else box_dir.parent)
    slow = "" if kind in IN_MEMORY else f", but it is on {kind or 'an unknown file system'}: steps may wait for a disk"
    return Check("box directory", True, f"{box_dir} has space for a rank's box{slow}")


def shared_directory(places: Places = PLACES) -> Iterator[Check]:
    """Check that the directory of the boxes of all users, if there is one, is a file system of its own."""
    if not places.run_is_shared():
        return
    name = "directory of all boxes"
    if places.run_shares_file_system():
        next_step = "Whoever fills it stops systemd and sshd, too. Install run-zmon.mount (docs/deploy/systemd.md)."
        yield Check(name, False, f"{places.run} is a part of the file system of {places.run.parent}", next_step)
    else:
        yield Check(name, True, f"{places.run} is a file system of its own")


def _owner_text(folder: Path) -> str:
    """Return a text with the owner of a folder, if it is another user; otherwise ""."""
    with contextlib.suppress(OSError):
        if (owner := folder.stat().st_uid) != os.geteuid():
            return f", which belongs to uid {owner}"
    return ""


def boxes(box_dir: Path) -> Iterator[Check]:
    """Check that the existing boxes can be read."""
    try:
        with contextlib.suppress(FileNotFoundError):
            [*box_dir.iterdir()]  # raises an error if the directory cannot be read; a glob of it would be empty
    except OSError as error:
        yield Check("boxes", None, f"unknown: cannot read {box_dir}: {error.strerror}")
        return
    num_readable = num_unreadable = 0
    for path in sorted(box_dir.glob("*/*/rank-*.box")):
        try:
            _read(path)
            num_readable += 1
        except FileNotFoundError:  # its job has ended, and its agent has just deleted it
            continue
        except (BoxError, OSError) as error:
            num_unreadable += 1
            result = str(error) if isinstance(error, BoxError) else f"cannot read {path}: {error.strerror}"
            yield Check("box", False, result, "Its rank is unwatched. Restart the job with this version of zmon.")
    if num_readable:
        yield Check("boxes", True, f"{num_readable} can be read")
    else:
        yield Check("boxes", None, "none can be read" if num_unreadable else "there are none: no watched job runs here")


def _read(path: Path) -> None:
    """Read every part of a box. Raises BoxError or OSError."""
    reader = BoxReader(path)
    try:
        reader.now()
        reader.identity()
        reader.last_boundary()
    finally:
        reader.close()


async def sources(session: aiohttp.ClientSession, agent: str, box_dir: Path) -> list[Check]:
    """Check that the agent answers, reads this box directory and has this version, and that its sources are up."""
    try:
        report = await client.ask(session, agent, endpoints.SNAPSHOT, SnapshotRequest(), TIMEOUT_SECONDS)
    except Unreachable as error:
        return [Check("agent", False, str(error), _UNWATCHED)]
    checks = [Check("agent", True, f"{agent} sees {counted(len(report.ranks), 'rank')} on {report.host}")]
    directories = report.box_dirs or ((report.box_dir,) if report.box_dir else ())
    if directories and not any(fnmatch(str(box_dir.absolute()), str(Path(d).absolute())) for d in directories):
        result = f"{agent} reads {' and '.join(directories)}, but ranks started here write to {box_dir}"
        checks = [Check("agent", False, result, "Set the same ZMON_BOX_DIR for both.")]
    if report.version != zmon.__version__:
        result = f"{agent} runs zmon {report.version}, but this is zmon {zmon.__version__}"
        next_step = "It may be unable to read the boxes of ranks started here. Restart the agent with this version."
        checks.append(Check("agent version", False, result, next_step))
    checks += timeouts(report.ranks)
    return [*checks, *map(_source, report.sources)]


def _source(source: SourceStatus) -> Check:
    """Check that a source of the agent is up. A source without anything to read on this machine is absent."""
    name = f"source {source.name}"
    if source.absent:
        return Check(name, None, source.error or "nothing to read on this machine")
    if not source.up:
        return Check(name, False, source.error or "is down, no reason given", "See the agent's log.")
    dropped = f", but leaves out {'; '.join(source.dropped)}" if source.dropped else ""
    return Check(name, True, source.error or f"reads{dropped}")


def timeouts(ranks: Sequence[RankState]) -> list[Check]:
    """Return a check for each job in which torch ends a collective before zmon reports a stall in training."""
    checks: dict[str, Check] = {}
    for rank in ranks:
        timeout = rank.collective_timeout_seconds
        lease = rank.lease_seconds
        trains = rank.alive and rank.activity == "train" and rank.steps >= _SETTLED_STEPS
        if timeout is None or lease is None or timeout > lease or not trains:
            continue
        result = f"torch ends a collective after {duration(timeout)}, zmon reports a stall after {duration(lease)}"
        next_step = "Raise the timeout of init_process_group, else a hang looks like an error of its victims."
        checks.setdefault(rank.job_id, Check(f"timeout of {rank.job_id}", None, result, next_step))
    return list(checks.values())
