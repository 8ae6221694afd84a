"""Follow the kernel log for errors of GPUs, memory and links since the agent started.

Layout: Documentation/ABI/testing/dev-kmsg. One read gives one record, `priority,sequence,microseconds,flags;text`,
followed by lines that begin with a space. Only the kernel's own records count (facility 0): any program with write
access could forge the others.

Where /dev/kmsg is missing or refused, as in a container, the ring buffer is read by syslog(2), which gives the
records as lines.

- xid: NVIDIA's driver raised an error. Look up its number.
- oom: the kernel killed a process because memory ran out. The line "Killed process" is always there; the report around
  it is rate-limited.
- link: a network link went down, by the driver's own line (mlx5, ice, i40e, bnxt_en and others). The line must end
  after `down`: a user can choose the name of a process, with which other lines begin, but not how they end. `ip link
  set down` gives the same line. Newer kernels also report RDMA ports, so a RoCE port may appear as port and as
  interface.

The time of a record is the processor's clock since boot. Time servers do not correct it, and it stands still while
the machine sleeps, so it is off by minutes after months. The time of an event is therefore limited to the span between
the last read that emptied the log and the read that returned the record.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from zmon.agent.sources.kernel_ring import KernelRing
from zmon.agent.sources.reading import Reading
from zmon.errors import SourceUnavailable
from zmon.schema.host import KernelEvent, KernelLog

KINDS = ("xid", "oom", "link")
MAX_EVENTS = 64
MAX_RECORDS = 1000  # per read; the next read continues
MAX_TEXT = 256
_NO_LOG = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ESPIPE, errno.ENXIO)  # no log, or no permission
RECORD_BYTES = 8192  # the longest possible record

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)[^)]*\): (\d+)")
_OOM = re.compile(r"(?:[^:]*out of memory[^:]*: )?Killed process \d+ ", re.I)
# driver, address and interface, "eth0: NIC Link is Down"; or "igb 0000:3b:00.0 eth0: igb: eth0 NIC Link is Down"
_LINK = re.compile(r"(?:\S+ \S+ |\w+: )?([\w.@-]+): (?:\w+: \S+ )?(?:NIC |Device )?link (?:is )?down\s*$", re.I)
_RDMA_LINK = re.compile(r"(?:\S+ \S+ )?(\w+): Port: (\d+) Link DOWN\s*$")


class KernelLogSource:
    """The kernel log; records from before the first read are skipped."""

    name = "kernel"
    field = "kernel"
    interval_seconds = 2.0

    def __init__(
        self,
        kmsg: Path = Path("/dev/kmsg"),
        read: Callable[[int, int], bytes] = os.read,
        ring: Callable[[], KernelRing] = KernelRing,
    ) -> None:
        self._kmsg, self._read, self._ring = kmsg, read, ring
        self._next_record: Callable[[], bytes] | None = None
        self._emptied_at = time.time()  # when the log was last read to its end
        self._counts = dict.fromkeys(KINDS, 0)
        self._events: deque[KernelEvent] = deque(maxlen=MAX_EVENTS)

    def read(self) -> Reading:
        """Return the counts so far and the last events. Raises SourceUnavailable if the log cannot be read."""
        if self._next_record is None:
            self._next_record = self._open()
        dropped: tuple[str, ...] = ()
        now = time.time()
        boot = now - time.monotonic()
        for _ in range(MAX_RECORDS):
            try:
                record = self._next_record()
            except BlockingIOError:
                self._emptied_at = now
                break
            except BrokenPipeError:  # overwritten before it was read; the next read continues with the oldest record
                dropped = ("some records: the kernel overwrote them before they were read",)
                continue
            event = kernel_event(record.decode(errors="replace"), boot)
            if event is not None:
                self._counts[event.kind] += 1
                self._events.append(replace(event, time=min(max(event.time, self._emptied_at), now)))
        return Reading(KernelLog(dict(self._counts), tuple(self._events)), dropped)

    def _open(self) -> Callable[[], bytes]:
        """Return the function that returns the next record. Raises SourceUnavailable."""
        try:
            return partial(self._read, _open_at_end(self._kmsg), RECORD_BYTES)
        except OSError as error:
            if error.errno not in _NO_LOG:
                raise
            refused = error
        try:
            return self._ring().next_record
        except OSError as error:
            raise SourceUnavailable(
                f"cannot read {self._kmsg} ({refused.strerror}) or call syslog",
                error.strerror or str(error),
                "run the agent with CAP_SYSLOG",
            ) from error


def kernel_event(record: str, boot: float) -> KernelEvent | None:
    """Return the event of a record, or None. `boot` is the unix time at which the log's clock was 0."""
    header, _, text = record.partition("\n")[0].partition(";")
    try:
        priority, _, micros = (int(word) for word in header.split(",")[:3])
    except ValueError:
        return None
    if priority >> 3:  # the facility; 0 is the kernel
        return None
    event_time = boot + micros / 1e6
    if xid := _XID.match(text):
        pci = f"{xid[1].lower()}.0"  # the driver leaves out the function, which is 0 for every GPU
        return KernelEvent(event_time, "xid", pci, text[:MAX_TEXT], int(xid[2]))
    if _OOM.match(text):
        return KernelEvent(event_time, "oom", None, text[:MAX_TEXT])
    if port := _RDMA_LINK.match(text):
        return KernelEvent(event_time, "link", f"{port[1]}:{port[2]}", text[:MAX_TEXT])
    if link := _LINK.match(text):
        return KernelEvent(event_time, "link", link[1], text[:MAX_TEXT])
    return None


def _open_at_end(kmsg: Path) -> int:
    """Return the descriptor of the log, behind its last record. Raises OSError."""
    fd = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.lseek(fd, 0, os.SEEK_END)
    except OSError:  # a container's /dev/kmsg may be a console, which cannot seek
        os.close(fd)
        raise
    return fd
