"""Are the disks busy, and does a file server keep the host waiting?

Layout: Documentation/admin-guide/iostats.rst for /proc/diskstats (sectors of 512 bytes whatever the disk's own; times
in milliseconds, 32 bits wide: they begin anew after 49.7 days of work); fs/nfs/super.c and net/sunrpc/stats.c for the
NFS sections of /proc/self/mountstats. A disk that works on many requests at once (NVMe) can be busy all the time and
still have room. Mounts are those of the agent's own mount namespace. Nothing here asks a file server, so that none can
hang the reading. Lustre, Ceph and CIFS count in debugfs or in files of their own that change with the version, FUSE
does not time its requests: none of them is here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from pathlib import Path
from typing import TypeVar

from zmon.agent.sources.reading import Reading
from zmon.errors import SourceUnavailable
from zmon.schema.host import DiskSample, MountSample, Storage

MAX_DISKS = 64
MAX_MOUNTS = 64
MAX_CHARACTERS = 1 << 20  # of one file: 64 NFS mounts take a quarter
SECTOR_BYTES = 512
NO_DISK = re.compile(r"(loop|ram|zram|sr|fd)\d+")  # files, memory, and media to be taken out

_Sample = TypeVar("_Sample")


class StorageSource:
    """Whole disks, and NFS mounts."""

    name = "storage"
    field = "storage"
    interval_seconds = 2.0

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._diskstats = proc / "diskstats"
        self._mountstats = proc / "self/mountstats"
        self._mountinfo = proc / "self/mountinfo"
        self._block = sys / "block"

    def read(self) -> Reading:
        """Every disk and network mount. Raises SourceUnavailable where the kernel tells of neither."""
        dropped: list[str] = []
        disks = _unless_unreadable(self._disks, dropped)
        mounts = _unless_unreadable(self._mounts, dropped)
        if disks is None and mounts is None:
            raise SourceUnavailable("no disks or mounts to read", "; ".join(dropped), "mount /proc and /sys")
        return Reading(Storage(disks or (), mounts or ()), tuple(dropped))

    def _disks(self, dropped: list[str]) -> tuple[DiskSample, ...]:
        diskstats = _head(self._diskstats, "\n", dropped)
        lines = whole_disks(diskstats, {folder.name for folder in self._block.iterdir()})
        disks = []
        for device, line in _first(MAX_DISKS, lines, "disks", dropped):
            if _text(self._block / device.replace("/", "!") / "queue/iostats") == "0":
                dropped.append(f"{device}: the kernel does not count: its queue/iostats is 0")
                continue
            try:
                disks.append(disk_sample(line))
            except ValueError:
                dropped.append(f"{device}: odd line in {self._diskstats}")
        return tuple(disks)

    def _mounts(self, dropped: list[str]) -> tuple[MountSample, ...]:
        mountstats = _head(self._mountstats, "\ndevice ", dropped)
        sections = network_mounts(mountstats, _head(self._mountinfo, "\n", dropped))
        mounts = []
        for mount, section in _first(MAX_MOUNTS, sections, "network mounts", dropped):
            try:
                mounts.append(mount_sample(section))
            except (ValueError, IndexError):
                dropped.append(f"{mount}: odd statistics in {self._mountstats}")
        return tuple(mounts)


def whole_disks(diskstats: str, block: Container[str]) -> dict[str, str]:
    """Line by device, of those that have a folder in /sys/block (partitions have none) and are disks."""
    lines = {found[1]: found[0] for found in re.finditer(r"^ *\d+ +\d+ (\S+) .*$", diskstats, re.M)}
    return {
        device: line
        for device, line in lines.items()
        if device.replace("/", "!") in block and not NO_DISK.fullmatch(device)  # cciss/c0d0 has folder cciss!c0d0
    }


def disk_sample(line: str) -> DiskSample:
    """A line of diskstats. Raises ValueError where it is odd."""
    _, _, device, _, _, sectors_read, _, _, _, sectors_written, _, in_progress, busy_ms, *_ = line.split()
    return DiskSample(
        device=device,
        read_bytes=int(sectors_read) * SECTOR_BYTES,
        written_bytes=int(sectors_written) * SECTOR_BYTES,
        busy_seconds=int(busy_ms) / 1000,
        in_progress=int(in_progress),
    )


def network_mounts(mountstats: str, mountinfo: str) -> dict[str, str]:
    """Section by mount point (a space in it is written \\040), of the file systems that have one: NFS alone.

    A bind mount shows the counters of the mount it was made from: the first of those that share a file system stays.
    """
    file_system = {words[4]: words[2] for words in (line.split(" ", 5) for line in mountinfo.splitlines()) if words[5:]}
    first: dict[str, tuple[str, str]] = {}
    for section in re.split(r"^(?:no )?device ", mountstats, flags=re.M):
        header = re.match(r"\S+ mounted on (\S+) with fstype nfs4? ", section)
        if header:
            first.setdefault(file_system.get(header[1], header[1]), (header[1], section))
    return dict(first.values())


def mount_sample(section: str) -> MountSample:
    """A section of mountstats: all its operations together. Raises ValueError or IndexError where it is odd."""
    words = section.split(None, 7)  # server:/export mounted on /data with fstype nfs4 …
    lines = section.split("per-op statistics\n")[1].splitlines()
    # Columns: requests, transmissions, major timeouts, bytes out, bytes in, then ms in the queue, to the answer, in all
    columns = [[int(number) for number in line.split(":")[1].split()] for line in lines if line.strip()]
    return MountSample(
        mount=words[3],
        kind=words[6],
        operations=sum(column[0] for column in columns),
        wait_seconds=sum(column[7] for column in columns) / 1000,
        timeouts=sum(column[2] for column in columns),
    )


def _first(most: int, found: dict[str, str], what: str, dropped: list[str]) -> list[tuple[str, str]]:
    if len(found) > most:
        dropped.append(f"{len(found) - most} {what} more than {most}")
    return list(found.items())[:most]


def _head(path: Path, end: str, dropped: list[str]) -> str:
    """Content of a file, of an endless one as many whole parts as are worth reading."""
    with path.open(errors="replace") as file:
        text = file.read(MAX_CHARACTERS)
    if len(text) < MAX_CHARACTERS:
        return text
    dropped.append(f"what {path} says after its first MiB")
    return text.rpartition(end)[0]


def _unless_unreadable(read: Callable[[list[str]], _Sample], dropped: list[str]) -> _Sample | None:
    try:
        return read(dropped)
    except OSError as error:
        dropped.append(f"cannot read: {error}")
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
