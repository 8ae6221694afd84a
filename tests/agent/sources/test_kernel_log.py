"""Tests of the kernel log: which lines are events, and how events are counted and dated."""

import errno
import itertools
import os
import time
from pathlib import Path

import pytest

from tests.agent.agent_client import raising
from zmon.agent.sources.kernel_log import MAX_EVENTS, MAX_RECORDS, MAX_TEXT, KernelLogSource, kernel_event
from zmon.agent.sources.kernel_ring import KernelRing
from zmon.errors import SourceUnavailable

XID = "NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
KILLED = "Memory cgroup out of memory: Killed process 1234 (python) total-vm:9kB, anon-rss:8kB, UID:0 pgtables:1kB"
LINK_DOWN = "mlx5_core 0000:3b:00.0 eth0: Link down"
no_ring = raising(PermissionError(errno.EPERM, "Operation not permitted"))  # of syslog(2)


class FakeKernelLog:
    """A fake kernel log: one read returns one record."""

    def __init__(self):
        self.records = []
        self.sequence = itertools.count()

    def write(self, text, facility=0, seconds=None):
        """Add a record with this text, written at this monotonic time, by default now."""
        micros = int((time.monotonic() if seconds is None else seconds) * 1e6)
        prefix = f"{facility * 8 + 4},{next(self.sequence)},{micros},-,caller=T77"
        self.records.append(f"{prefix};{text}\n DEVICE=+pci:x\n".encode())

    def overwrite(self):
        """Let the next read fail, as it does after the kernel has overwritten records."""
        self.records.append(BrokenPipeError(errno.EPIPE, "Broken pipe"))

    def read(self, fd, length):
        """Return the next record as `os.read` does, or raise."""
        if not self.records:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        record = self.records.pop(0)
        if isinstance(record, Exception):
            raise record
        return record[:length]


@pytest.fixture
def kernel_log():
    """Return a kernel log without records."""
    return FakeKernelLog()


@pytest.fixture
def source(kernel_log, tmp_path):
    """Return the source that reads the fake kernel log."""
    (tmp_path / "kmsg").touch()
    return KernelLogSource(tmp_path / "kmsg", kernel_log.read, no_ring)


def parse_event(text):
    """Return the event of a record with this text, written 2.5 s after a boot at unix time 1000; None: no event."""
    return kernel_event(f"4,1,2500000,-;{text}\n", boot=1000.0)


EVENTS = {  # kind of the event → its lines, each with the device and the number of the error
    "xid": [
        (XID, "0000:3b:00.0", 79),
        ("NVRM: Xid (PCI:0018:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x0)", "0018:01:00.0", 149),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 43, pid=7, name=python, Ch 00000008", "0000:01:00.0", 43),  # MIG
        ("NVRM: Xid (0000:03:00): 31, Ch 00000003, engmask 00000101, intr 10000000", "0000:03:00.0", 31),  # old driver
    ],
    "oom": [
        (KILLED, None, None),
        ("Out of memory: Killed process 1 (a b) total-vm:1kB", None, None),
        ("Out of memory (oom_kill_allocating_task): Killed process 1 (x) total-vm:1kB", None, None),
        # Linux before 5.0
        ("Killed process 1 (python) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB", None, None),
    ],
    "link": [
        (LINK_DOWN, "eth0", None),
        ("ice 0000:3b:00.0 ens1f0np0: NIC Link is Down", "ens1f0np0", None),
        ("i40e 0000:3b:00.0 enp59s0f0: NIC Link is Down", "enp59s0f0", None),
        ("bnxt_en 0000:01:00.0 eth1: NIC Link is Down", "eth1", None),
        ("igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down", "eno1", None),
        ("tg3 0000:02:00.0 eth0: Link is down", "eth0", None),
        ("mlx4_en: eth2: Link Down", "eth2", None),
        ("eth0: Link is Down", "eth0", None),
        ("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link DOWN", "mlx5_5:1", None),
    ],
}


@pytest.mark.parametrize(
    ("kind", "text", "device", "xid"), [(kind, *line) for kind, lines in EVENTS.items() for line in lines]
)
def test_line_about_a_gpu_a_kill_for_memory_or_a_link_is_an_event(kind, text, device, xid):
    event = parse_event(text)
    assert (event.kind, event.text, event.device, event.xid, event.time) == (kind, text, device, xid, 1002.5)


@pytest.mark.parametrize(
    "text",
    [
        "mlx5_core 0000:3b:00.0 eth0: Link up",
        "ice 0000:3b:00.0 ens1f0: NIC Link is up 100 Gbps Full Duplex, Requested FEC: RS-FEC",
        "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
        "IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready",
        "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE",
        "bond0: (slave eth0): link status definitely down, disabling slave",
        "bond0: link status down for interface eth0, disabling it in 200 ms",
        "ata1: SATA link down (SStatus 0 SControl 300)",
        "pcieport 0000:00:1c.0: pciehp: Slot(0): Link Down",
        # The other lines about a process that is killed for memory, so that it is counted once.
        "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=1234,uid=0",
        "Memory cgroup out of memory: Kill process 1234 (python) score 1004 or sacrifice child",
        "oom_reaper: reaped process 1234 (python), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15",
        "NVRM: GPU at PCI:0000:3b:00: GPU-efbdfde9-5798-a6e7-4c46-12518fa15375",
        "audit: Killed process and Link is Down and Xid",
        "ib0: link down[4242]: segfault at 0 ip 0000000000401000 sp 00007ffd error 6",  # the name of a process
        "ib0: link down: page allocation failure: order:4, mode:0x40dc0",
        "",
    ],
)
def test_other_lines_are_not_events(text):
    assert parse_event(text) is None


@pytest.mark.parametrize("record", ["", "garbage", ";", f"4,1,x,-;{XID}", f"4;{XID}", f"\x00\ufffd,1,2,-;{XID}"])
def test_record_of_another_format_is_not_an_event(record):
    assert kernel_event(record, boot=0.0) is None


def test_events_are_counted_by_kind_and_listed(kernel_log, source):
    assert source.read().value.counts == {"xid": 0, "oom": 0, "link": 0}
    for text in (XID, KILLED, LINK_DOWN, XID, "hello"):
        kernel_log.write(text)
    kernel = source.read().value
    assert kernel.counts == {"xid": 2, "oom": 1, "link": 1}
    assert [event.kind for event in kernel.events] == ["xid", "oom", "link", "xid"]
    assert source.read().value == kernel


def test_line_written_by_a_program_is_not_an_event(kernel_log, source):
    kernel_log.write(XID, facility=1)
    kernel_log.write(LINK_DOWN, facility=3)
    assert source.read().value.events == ()


@pytest.mark.parametrize("offset", [0, -3600, 3600])
def test_event_time_is_between_two_reads_also_if_the_kernels_clock_is_off(kernel_log, source, offset):
    source.read()
    before = time.time()
    source.read()
    kernel_log.write(XID, seconds=time.monotonic() + offset)
    (parsed,) = source.read().value.events
    assert before <= parsed.time <= time.time()


def test_lost_records_are_reported_and_the_others_are_read(kernel_log, source):
    kernel_log.overwrite()
    kernel_log.write(XID)
    kernel_log.overwrite()
    kernel_log.write(XID)
    reading = source.read()
    assert len(reading.dropped) == 1
    assert reading.value.counts["xid"] == 2
    assert source.read().dropped == ()


def test_many_records_are_read_in_parts_and_the_last_events_are_listed(kernel_log, source):
    for n in range(MAX_RECORDS + 10):
        kernel_log.write(f"{XID} {n} " + "x" * 1000)
    assert source.read().value.counts["xid"] == MAX_RECORDS
    kernel = source.read().value
    assert kernel.counts["xid"] == MAX_RECORDS + 10
    assert len(kernel.events) == MAX_EVENTS
    assert kernel.events[-1].text.startswith(f"{XID} {MAX_RECORDS + 9} ")
    assert len(kernel.events[-1].text) == MAX_TEXT


def test_lines_from_before_the_agent_started_are_ignored(tmp_path):
    (tmp_path / "kmsg").write_text(f"4,1,2,-;{XID}\n")
    source = KernelLogSource(tmp_path / "kmsg", ring=no_ring)
    assert source.read().value.counts["xid"] == 0
    with (tmp_path / "kmsg").open("a") as kmsg:
        kmsg.write(f"4,2,3,-;{XID}\n")
    assert source.read().value.counts["xid"] == 1


def test_source_is_absent_until_the_log_exists(tmp_path, kernel_log):
    source = KernelLogSource(tmp_path / "kmsg", kernel_log.read, no_ring)
    with pytest.raises(SourceUnavailable, match="CAP_SYSLOG"):
        source.read()
    (tmp_path / "kmsg").touch()
    assert source.read().value.events == ()


def test_ring_buffer_is_read_where_the_device_is_refused(tmp_path):
    text = ["<6>[    1.000000] before"]

    def call(action, buffer, length):
        if buffer is None:
            return 1000
        buffer.value = "\n".join(text).encode()
        return len(buffer.value)

    source = KernelLogSource(tmp_path / "kmsg", ring=lambda: KernelRing(call))
    assert source.read().value.counts["xid"] == 0
    text.append(f"<4>[    2.500000] {XID}")
    (event,) = source.read().value.events
    assert (event.device, event.xid, event.text) == ("0000:3b:00.0", 79, XID)
    assert source.read().value.counts["xid"] == 1


def test_log_that_is_a_console_is_absent_and_leaves_no_file_open(tmp_path):
    """Some containers have a console at this path, which cannot seek."""
    os.mkfifo(tmp_path / "kmsg")
    source = KernelLogSource(tmp_path / "kmsg", ring=no_ring)
    for _ in range(3):
        with pytest.raises(SourceUnavailable, match="seek"):
            source.read()
    opened = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert str(tmp_path / "kmsg") not in opened


def test_log_that_cannot_be_opened_for_another_reason_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "open", raising(OSError(errno.EMFILE, "Too many open files")))
    with pytest.raises(OSError, match="Too many"):
        KernelLogSource(tmp_path / "kmsg", ring=no_ring).read()
