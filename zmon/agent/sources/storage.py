"""Read how busy the disks are, and how long the host waits for NFS servers.

A disk that works on many requests at once (NVMe) can be busy all the time and still take more work. The mounts are
those of the agent's own mount namespace. Reading sends no request to a file server, so none can make it hang. Lustre,
Ceph and CIFS keep their counters in debugfs or in files that change with the version, and FUSE does not time its
requests: all of them are left out.

Layout of /proc/diskstats: Documentation/admin-guide/iostats.rst. Sectors have 512 bytes on every disk. Times are in
milliseconds with 32 bits, which wrap after 49.7 days of work. Layout of the NFS sections of /proc/self/mountstats:
fs/nfs/super.c and net/sunrpc/stats.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from pathlib import Path
from typing import TypeVar

from zmon.agent.sources.reading import Reading, take_first, text_of
from zmon.errors import SourceUnavailable
from zmon.schema.host import DiskSample, MountSample, Storage

MAX_DISKS = 64
MAX_MOUNTS = 64
MAX_CHARACTERS = 1 << 20  # characters read of one file; 64 NFS mounts take a quarter of it
SECTOR_BYTES = 512
NO_DISK = re.compile(r"(loop|ram|zram|sr|fd)\d+")  # names of devices on files, in memory, and with removable media

_Sample = TypeVar("_Sample")


class StorageSource:
    """The whole disks and the NFS mounts of this host."""

    name = "storage"
    field = "storage"
    interval_seconds = 2.0

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._diskstats = proc / "diskstats"
        self._mountstats = proc / "self/mountstats"
        self._mountinfo = proc / "self/mountinfo"
        self._block = sys / "block"

    def read(self) -> Reading:
        """Return every disk and network mount. Raises SourceUnavailable if neither can be read."""
        dropped: list[str] = []
        disks = _read_or_none(self._disks, dropped)
        mounts = _read_or_none(self._mounts, dropped)
        if disks is None and mounts is None:
            raise SourceUnavailable("cannot read disks or mounts", "; ".join(dropped), "mount /proc and /sys")
        return Reading(Storage(disks or (), mounts or ()), tuple(dropped))

    def _disks(self, dropped: list[str]) -> tuple[DiskSample, ...]:
        diskstats = _head(self._diskstats, "\n", dropped)
        lines_by_disk = whole_disks(diskstats, {folder.name for folder in self._block.iterdir()})
        disks = []
        for device, line in take_first(MAX_DISKS, [*lines_by_disk.items()], "disks", dropped):
            if text_of(self._block / device.replace("/", "!") / "queue/iostats") == "0":
                dropped.append(f"{device}: the kernel does not count its requests: its queue/iostats is 0")
                continue
            try:
                disks.append(disk_sample(line))
            except ValueError:
                dropped.append(f"{device}: its line in {self._diskstats} has an unknown format")
        return tuple(disks)

    def _mounts(self, dropped: list[str]) -> tuple[MountSample, ...]:
        mountstats = _head(self._mountstats, "\ndevice ", dropped)
        sections = network_mounts(mountstats, _head(self._mountinfo, "\n", dropped))
        mounts = []
        for mount, section in take_first(MAX_MOUNTS, [*sections.items()], "network mounts", dropped):
            try:
                mounts.append(mount_sample(section))
            except (ValueError, IndexError):
                dropped.append(f"{mount}: its statistics in {self._mountstats} have an unknown format")
        return tuple(mounts)


def whole_disks(diskstats: str, block: Container[str]) -> dict[str, str]:
    """Return the line of each disk that has a folder in /sys/block (partitions have none), by device."""
    lines = {match[1]: match[0] for match in re.finditer(r"^ *\d+ +\d+ (\S+) .*$", diskstats, re.M)}
    return {
        device: line
        for device, line in lines.items()
        if device.replace("/", "!") in block and not NO_DISK.fullmatch(device)  # the folder of cciss/c0d0 is cciss!c0d0
    }


def disk_sample(line: str) -> DiskSample:
    """Parse a line of diskstats. Raises ValueError if it has another format."""
    _, _, device, _, _, sectors_read, _, _, _, sectors_written, _, in_progress, busy_ms, *_ = line.split()
    return DiskSample(
        device=device,
        read_bytes=int(sectors_read) * SECTOR_BYTES,
        written_bytes=int(sectors_written) * SECTOR_BYTES,
        busy_seconds=int(busy_ms) / 1000,
        in_progress=int(in_progress),
    )


def network_mounts(mountstats: str, mountinfo: str) -> dict[str, str]:
    """Return the section of each mount that has statistics (only NFS has), by mount point (a space is \\040).

    A bind mount shows the counters of its original. Of mounts that share a file system, only the first is returned.
    """
    devices = re.findall(r"^\S+ \S+ (\S+) \S+ (\S+) ", mountinfo, re.M)
    file_systems: dict[str, str] = {mount: device for device, mount in devices}  # by mount point
    sections: dict[str, tuple[str, str]] = {}  # mount point and section, by file system
    for section in re.split(r"^(?:no )?device ", mountstats, flags=re.M):
        header = re.match(r"\S+ mounted on (\S+) with fstype nfs4? ", section)
        if header:
            sections.setdefault(file_systems.get(header[1], header[1]), (header[1], section))
    return dict(sections.values())


def mount_sample(section: str) -> MountSample:
    """Parse a section of mountstats and sum all operations. Raises ValueError or IndexError for another format."""
    _, _, _, mount, _, _, kind, _ = section.split(None, 7)  # server:/export mounted on /data with fstype nfs4 …
    lines = section.split("per-op statistics\n")[1].splitlines()
    # Columns: requests, transmissions, major timeouts, bytes out, bytes in, then ms in queue, until answer, in total
    columns = [[int(number) for number in line.split(":")[1].split()] for line in lines if line.strip()]
    return MountSample(
        mount=mount,
        kind=kind,
        operations=sum(column[0] for column in columns),
        wait_seconds=sum(column[7] for column in columns) / 1000,
        timeouts=sum(column[2] for column in columns),
    )


def _head(path: Path, end: str, dropped: list[str]) -> str:
    """Return the content of a file, cut after the last whole part (which ends with `end`) if it is too long."""
    with path.open(errors="replace") as file:
        text = file.read(MAX_CHARACTERS)
    if len(text) < MAX_CHARACTERS:
        return text
    dropped.append(f"the part of {path} after its first MiB")
    return text.rpartition(end)[0]


def _read_or_none(read: Callable[[list[str]], _Sample], dropped: list[str]) -> _Sample | None:
    try:
        return read(dropped)
    except OSError as error:
        dropped.append(f"cannot read: {error}")
        return None
