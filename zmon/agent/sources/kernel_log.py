"""What did the kernel say about GPUs, memory and links since the agent started?

Layout: Documentation/ABI/testing/dev-kmsg. One read gives one record, `priority,sequence,microseconds,flags;text`,
and lines that begin with a space after it. Only the kernel's own records count (facility 0): any program that may
write to the log could make up the rest.

- xid: an error that NVIDIA's driver raised; its number is what to look up.
- oom: a process was killed for want of memory. Of the many lines of a kill the one "Killed process" is always there,
  the report around it is rate-limited.
- link: a network link went down, by the driver's own line (mlx5, ice, i40e, bnxt_en and their like). `ip link set down`
  reads the same. Newer kernels tell of RDMA ports too, so a RoCE port may be there twice: as port and as interface.

The time of a record is the processor's clock since boot: it is not corrected by time servers and stands still while
the machine sleeps, so it strays by minutes in months. A record is therefore never placed before the reading that last
emptied the log nor after the one that found it.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from zmon.agent.sources.reading import Reading
from zmon.errors import SourceUnavailable
from zmon.schema.host import KernelEvent, KernelLog

KINDS = ("xid", "oom", "link")
MAX_EVENTS = 64
MAX_RECORDS = 1000  # of one reading; the next goes on
MAX_TEXT = 256
_NO_LOG = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ESPIPE, errno.ENXIO)  # none, or not for us
RECORD_BYTES = 8192  # no record is longer

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)[^)]*\): (\d+)")
_OOM = re.compile(r"(?:[^:]*out of memory[^:]*: )?Killed process \d+ ", re.I)
# driver, address and interface, "eth0: NIC Link is Down"; or "igb 0000:3b:00.0 eth0: igb: eth0 NIC Link is Down"
_LINK = re.compile(r"(?:\S+ \S+ |\w+: )?([\w.@-]+): (?:\w+: \S+ )?(?:NIC |Device )?link (?:is )?down\b", re.I)
_RDMA_LINK = re.compile(r"(?:\S+ \S+ )?(\w+): Port: (\d+) Link DOWN")


class KernelLogSource:
    """Follows the kernel's log from where it is when first read."""

    name = "kernel"
    field = "kernel"
    interval_seconds = 2.0

    def __init__(self, kmsg: Path = Path("/dev/kmsg"), read: Callable[[int, int], bytes] = os.read) -> None:
        self._kmsg = kmsg
        self._read = read
        self._fd: int | None = None
        self._emptied = time.time()  # when the log was last read to its end
        self._counts = dict.fromkeys(KINDS, 0)
        self._events: deque[KernelEvent] = deque(maxlen=MAX_EVENTS)

    def read(self) -> Reading:
        """Counts so far and the last events. Raises SourceUnavailable where the log may not be read."""
        if self._fd is None:
            self._fd = _open_at_end(self._kmsg)
        dropped: tuple[str, ...] = ()
        now = time.time()
        boot = now - time.monotonic()
        for _ in range(MAX_RECORDS):
            try:
                record = self._read(self._fd, RECORD_BYTES)
            except BlockingIOError:
                self._emptied = now
                break
            except BrokenPipeError:  # overwritten before it was read; the next read goes on with the oldest there is
                dropped = ("some records: the log filled up faster than it was read",)
                continue
            event = kernel_event(record.decode(errors="replace"), boot)
            if event is not None:
                self._counts[event.kind] += 1
                self._events.append(replace(event, time=min(max(event.time, self._emptied), now)))
        return Reading(KernelLog(dict(self._counts), tuple(self._events)), dropped)


def kernel_event(record: str, boot: float) -> KernelEvent | None:
    """What a record means to a job; `boot` is the unix time at which the log's clock was 0."""
    header, _, text = record.partition("\n")[0].partition(";")
    try:
        priority, _, micros = (int(word) for word in header.split(",")[:3])
    except ValueError:
        return None
    if priority >> 3:  # its facility: 0 is the kernel
        return None
    when = boot + micros / 1e6
    if xid := _XID.match(text):
        pci = f"{xid[1].lower()}.0"  # the driver leaves out the function, which is 0 of every GPU
        return KernelEvent(when, "xid", pci, text[:MAX_TEXT], int(xid[2]))
    if _OOM.match(text):
        return KernelEvent(when, "oom", None, text[:MAX_TEXT])
    if port := _RDMA_LINK.match(text):
        return KernelEvent(when, "link", f"{port[1]}:{port[2]}", text[:MAX_TEXT])
    if link := _LINK.match(text):
        return KernelEvent(when, "link", link[1], text[:MAX_TEXT])
    return None


def _open_at_end(kmsg: Path) -> int:
    fd = None
    try:
        fd = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(fd, 0, os.SEEK_END)
    except OSError as error:
        if fd is not None:  # a container's /dev/kmsg may be a console, which cannot seek
            os.close(fd)
        if error.errno not in _NO_LOG:
            raise
        raise SourceUnavailable(
            f"cannot read {kmsg}", f"{error.strerror}", "run the agent with CAP_SYSLOG, and /dev/kmsg in its container"
        ) from error
    return fd
