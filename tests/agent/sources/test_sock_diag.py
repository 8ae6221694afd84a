"""Tests of the kernel's socket monitor, with real connections over loopback and with prepared answers."""

import contextlib
import errno
import os
import socket
import struct
import time

import pytest

from tests.agent.agent_client import raising
from zmon.agent.sources import sock_diag
from zmon.agent.sources.sock_diag import Connection, dump, parse_connection, split_messages
from zmon.errors import SourceUnavailable


@pytest.fixture
def connect():
    """Return a function that connects over loopback; it returns the end that connected and the end that accepted."""
    opened = []

    def make(server="127.0.0.1", client=None, family=socket.AF_INET, accepts=True):
        listener = socket.create_server((server, 0), family=family, dualstack_ipv6=server == "::")
        connected = socket.socket(family)
        opened.extend((listener, connected))
        connected.connect((client or server, listener.getsockname()[1]))
        accepted = listener.accept()[0] if accepts else listener
        opened.append(accepted)
        return connected, accepted

    yield make
    for opened_socket in opened:
        opened_socket.close()


def inode_of(end):
    """Return the inode of a socket, by which the kernel names it."""
    return os.fstat(end.fileno()).st_ino


def read_connection(end):
    """Return the connection of a socket, once all data in flight has arrived."""
    time.sleep(0.1)
    (parsed,) = dump({inode_of(end)}).connections
    return parsed


def exchange(connected, accepted, num_bytes):
    """Send bytes and read them at the other end."""
    connected.sendall(bytes(num_bytes))
    accepted.recv(num_bytes, socket.MSG_WAITALL)


def fill(connected):
    """Send to a peer that does not read, until no more fits; return the number of bytes."""
    connected.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += connected.send(bytes(65536))
    return sent


def test_connection_shows_its_peer_and_a_measured_round_trip(connect):
    connected, accepted = connect("127.0.0.2")
    parsed = read_connection(connected)
    assert (parsed.inode, parsed.peer) == (inode_of(connected), "127.0.0.2")
    assert (parsed.send_queue_bytes, parsed.receive_queue_bytes, parsed.retransmitted_segments) == (0, 0, 0)
    assert 0 < parsed.round_trip_seconds < 1
    assert read_connection(accepted).peer == "127.0.0.1"


def test_delivery_rate_is_known_only_after_data_was_sent(connect):
    connected, accepted = connect()
    assert read_connection(connected).delivery_bytes_per_second is None
    for _ in range(20):
        exchange(connected, accepted, 100_000)
    assert read_connection(connected).delivery_bytes_per_second > 1e6


def test_acknowledged_bytes_are_counted(connect):
    connected, accepted = connect()
    before = read_connection(connected)
    exchange(connected, accepted, 100_000)
    assert read_connection(connected).acked_bytes - before.acked_bytes == 100_000


def test_peer_that_does_not_read_lets_both_queues_grow(connect):
    connected, accepted = connect()
    sent = fill(connected)
    waiting, unread = read_connection(connected).send_queue_bytes, read_connection(accepted).receive_queue_bytes
    assert waiting > 0
    assert unread > 0
    assert waiting + unread >= sent  # received data may not be acknowledged yet
    time.sleep(0.5)  # longer than the first timeout
    assert read_connection(connected).num_timeouts == 0


def test_peer_that_does_not_read_keeps_no_connection_busy(connect):
    connected, _ = connect()
    fill(connected)
    before = read_connection(connected).busy_seconds
    assert read_connection(connected).busy_seconds - before < 0.05  # of the 0.1 s between the reads


def test_ipv4_in_ipv6_is_shown_as_ipv4(connect):
    connected, accepted = connect("::", "::ffff:127.0.0.3", socket.AF_INET6)
    assert (read_connection(connected).peer, read_connection(accepted).peer) == ("127.0.0.3", "127.0.0.1")


def test_ipv6_peer_is_shown_in_ipv6_notation(connect):
    assert read_connection(connect("::1", family=socket.AF_INET6)[0]).peer == "::1"


def test_sockets_not_asked_for_are_only_counted(connect):
    connected, accepted = connect()
    answer = dump({inode_of(connected)})
    assert [c.inode for c in answer.connections] == [inode_of(connected)]
    assert inode_of(accepted) in answer.other_inodes
    assert inode_of(connected) not in answer.other_inodes


def test_listening_socket_is_not_a_connection(connect):
    _, listener = connect(accepts=False)
    answer = dump({inode_of(listener)})
    assert answer.connections == []
    assert inode_of(listener) not in answer.other_inodes


def test_connection_without_a_process_is_left_out(connect):
    connected, _ = connect(accepts=False)
    assert 0 not in dump({inode_of(connected)}).other_inodes


TCP_INFO_BYTES = 248  # the length of struct tcp_info; kernels differ only in it
TCP_INFO = {  # fields of the struct → their format and offset
    "timeouts": ("=B", 2), "probes": ("=B", 3), "under_way": ("=I", 24), "round_trip_us": ("=I", 68),
    "retransmitted": ("=I", 100), "acked": ("=Q", 120), "received": ("=Q", 128), "delivery_rate": ("=Q", 160),
    "busy_us": ("=Q", 168), "no_room_us": ("=Q", 176),
}  # fmt: skip


def pack_tcp_info(length=TCP_INFO_BYTES, **values):
    """Return a struct tcp_info with these values; all others are 0."""
    info = bytearray(TCP_INFO_BYTES)
    for name, value in values.items():
        struct.pack_into(TCP_INFO[name][0], info, TCP_INFO[name][1], value)
    return bytes(info[:length])


def pack_connection(info, peer="10.0.0.7"):
    """Return a struct inet_diag_msg of socket 4711 with the attributes SHUTDOWN (one byte, padded) and INFO."""
    head = bytes([socket.AF_INET, 1, 0, 0]) + struct.pack(">HH", 40000, 29500)
    addresses = socket.inet_aton("10.0.0.1").ljust(16, b"\0") + socket.inet_aton(peer).ljust(16, b"\0")
    tail = bytes(4 + 8) + struct.pack("=IIIII", 0, 300, 70_000, 1000, 4711)
    attributes = struct.pack("=HHB3x", 5, 8, 0) + struct.pack("=HH", 4 + len(info), 2) + info
    return head + addresses + tail + attributes


NLMSG_ERROR, NLMSG_DONE, SOCK_DIAG_BY_FAMILY = 2, 3, 20  # kinds of messages: linux/netlink.h and linux/sock_diag.h
NLM_F_MULTI, NLM_F_DUMP_INTR = 0x2, 0x10


def pack_message(kind, body, flags=NLM_F_MULTI):
    """Return a message of netlink, padded to four bytes."""
    length = 16 + len(body)
    return struct.pack("=IHHII", length, kind, flags, 0, 0) + body + bytes(-length % 4)


DONE = pack_message(NLMSG_DONE, struct.pack("=i", 0))


def test_connection_is_read_in_the_kernels_layout():
    info = pack_tcp_info(
        round_trip_us=4500, retransmitted=12, delivery_rate=5_000_000, acked=80_000, received=90_000, busy_us=900_000
    )
    assert parse_connection(pack_connection(info)) == Connection(
        4711, "10.0.0.1", "10.0.0.7", send_queue_bytes=70_000, receive_queue_bytes=300, retransmitted_segments=12,
        round_trip_seconds=0.0045, delivery_bytes_per_second=5e6, acked_bytes=80_000, busy_seconds=0.9,
        received_bytes=90_000,
    )  # fmt: skip


PARSED = {  # values of struct tcp_info → fields of the connection
    "timeouts while data is under way": ({"timeouts": 6, "under_way": 3}, {"num_timeouts": 6}),
    "a reader that has no room: nothing is under way": ({"timeouts": 6}, {"num_timeouts": 0}),
    # Without a route nothing is sent; a peer without room answers each probe, which resets the count.
    "probes without an answer count as timeouts": ({"probes": 4}, {"num_timeouts": 4}),
    "probes do not count while data is under way": (
        {"probes": 4, "timeouts": 2, "under_way": 1}, {"num_timeouts": 2}
    ),
    "time limited by the receive window is not busy": (
        {"busy_us": 900_000, "no_room_us": 300_000}, {"busy_seconds": 0.6}
    ),
    "values that are not measured yet": ({}, {"round_trip_seconds": None, "delivery_bytes_per_second": None}),
    "older kernel without busy time": (
        {"length": 168, "acked": 80_000, "delivery_rate": 5_000_000},
        {"acked_bytes": None, "busy_seconds": None, "delivery_bytes_per_second": 5e6},
    ),
    "older kernel without delivery rate": (
        {"length": 160, "round_trip_us": 4500, "delivery_rate": 5_000_000},
        {"round_trip_seconds": 0.0045, "delivery_bytes_per_second": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("info", "fields"), PARSED.values(), ids=PARSED)
def test_connection_has_only_what_the_kernel_has_measured(info, fields):
    connection = parse_connection(pack_connection(pack_tcp_info(**info)))
    assert {name: getattr(connection, name) for name in fields} == fields


@pytest.mark.parametrize("length", [0, 100])
def test_connection_that_is_too_short_is_refused(length):
    with pytest.raises(OSError, match="too short"):
        parse_connection(pack_connection(pack_tcp_info(length)))


def test_answer_that_is_cut_short_is_refused():
    with pytest.raises(OSError, match="cut short"):
        split_messages(pack_message(SOCK_DIAG_BY_FAMILY, bytes(100))[:60])


def test_answer_during_which_the_connections_changed_is_refused():
    with pytest.raises(InterruptedError, match="changed"):
        split_messages(pack_message(SOCK_DIAG_BY_FAMILY, b"one", flags=NLM_F_MULTI | NLM_F_DUMP_INTR))


@pytest.fixture
def fake_kernel(monkeypatch):
    """Yield the socket of a fake kernel at the far end of netlink."""
    used, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(socket, "socket", lambda *_: used)
    yield kernel
    used.close()
    kernel.close()


def test_answer_may_come_in_several_parts(fake_kernel):
    for part in (
        pack_message(SOCK_DIAG_BY_FAMILY, pack_connection(pack_tcp_info())),
        DONE,
        pack_message(SOCK_DIAG_BY_FAMILY, pack_connection(pack_tcp_info(), "10.0.0.8")) + DONE,
    ):
        fake_kernel.send(part)
    assert [c.peer for c in dump({4711}).connections] == ["10.0.0.7", "10.0.0.8"]


@pytest.mark.parametrize("kind", [NLMSG_ERROR, NLMSG_DONE], ids=["error", "done"])
def test_kernel_without_a_monitor_for_tcp_is_reported_with_a_next_step(fake_kernel, kind):
    fake_kernel.send(pack_message(kind, struct.pack("=i", -errno.ENOENT)))
    with pytest.raises(SourceUnavailable, match="modprobe tcp_diag"):
        dump(set())


def test_other_netlink_error_fails_the_read(fake_kernel):
    fake_kernel.send(pack_message(NLMSG_ERROR, struct.pack("=i", -errno.ENOMEM)))
    with pytest.raises(OSError, match=os.strerror(errno.ENOMEM)):
        dump(set())


def test_too_many_connections_fail_the_read(fake_kernel, monkeypatch):
    monkeypatch.setattr(sock_diag, "MAX_OTHERS", 0)
    fake_kernel.send(pack_message(SOCK_DIAG_BY_FAMILY, pack_connection(pack_tcp_info())))
    with pytest.raises(OSError, match="more than 0"):
        dump(set())


def test_kernel_that_does_not_answer_is_a_timeout(fake_kernel, monkeypatch):
    monkeypatch.setattr(sock_diag, "TIMEOUT_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        dump(set())


@pytest.mark.parametrize(
    ("code", "next_step"),
    [
        (errno.EPERM, "seccomp"),
        (errno.EPROTONOSUPPORT, "modprobe inet_diag"),
        (errno.EAFNOSUPPORT, "AF_NETLINK"),
    ],
)
def test_container_without_netlink_reports_the_source_as_absent(monkeypatch, code, next_step):
    monkeypatch.setattr(socket, "socket", raising(OSError(code, "no")))
    with pytest.raises(SourceUnavailable, match=next_step):
        dump(set())
