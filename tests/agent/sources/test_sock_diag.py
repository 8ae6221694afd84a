"""Tests of the kernel's socket monitor, with real connections over loopback and with prepared answers."""

import contextlib
import errno
import os
import socket
import struct
import time

import pytest

from zmon.agent.sources import sock_diag
from zmon.agent.sources.sock_diag import Connection, connection, dump, split
from zmon.errors import SourceUnavailable


@pytest.fixture
def connect():
    """Connect over loopback; return the end that connected and the end that accepted."""
    opened = []

    def make(server="127.0.0.1", client=None, family=socket.AF_INET, accepts=True):
        listener = socket.create_server((server, 0), family=family, dualstack_ipv6=server == "::")
        near = socket.socket(family)
        opened.extend((listener, near))
        near.connect((client or server, listener.getsockname()[1]))
        far = listener.accept()[0] if accepts else listener
        opened.append(far)
        return near, far

    yield make
    for opened_socket in opened:
        opened_socket.close()


def inode_of(end):
    return os.fstat(end.fileno()).st_ino


def read_connection(end):
    """Return the connection of a socket, once all data in flight has arrived."""
    time.sleep(0.1)
    (parsed,) = dump({inode_of(end)}).connections
    return parsed


def test_connection_shows_its_peer_and_values_that_are_known_once_they_were_measured(connect):
    near, far = connect("127.0.0.2")
    before = read_connection(near)
    assert (before.inode, before.peer, read_connection(far).peer) == (inode_of(near), "127.0.0.2", "127.0.0.1")
    assert (before.send_queue_bytes, before.receive_queue_bytes, before.retransmitted_segments) == (0, 0, 0)
    assert 0 < before.round_trip_seconds < 1
    assert before.delivery_bytes_per_second is None
    for _ in range(20):
        near.sendall(bytes(100_000))
        far.recv(100_000, socket.MSG_WAITALL)
    after = read_connection(near)
    assert after.delivery_bytes_per_second > 1e6
    assert after.acked_bytes - before.acked_bytes == 2_000_000


def test_peer_that_does_not_read_lets_both_queues_grow_and_keeps_no_connection_busy(connect):
    near, far = connect()
    near.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += near.send(bytes(65536))
    before = read_connection(near)
    unread = read_connection(far).receive_queue_bytes
    assert min(before.send_queue_bytes, unread) > 0
    assert before.send_queue_bytes + unread >= sent  # received data may not be acknowledged yet
    time.sleep(0.5)  # longer than the first timeout
    after = read_connection(near)
    assert after.num_timeouts == 0
    assert after.busy_seconds - before.busy_seconds < 0.1  # of the 0.6 s and more between the reads


@pytest.mark.parametrize(
    ("server", "client", "family", "peers"),
    [
        ("::", "::ffff:127.0.0.3", socket.AF_INET6, ("127.0.0.3", "127.0.0.1")),
        ("::1", None, socket.AF_INET6, ("::1", "::1")),
    ],
    ids=["IPv4 in IPv6 as IPv4", "IPv6"],
)
def test_peer_is_shown_in_its_own_notation(connect, server, client, family, peers):
    assert tuple(read_connection(end).peer for end in connect(server, client, family)) == peers


def test_sockets_not_asked_for_are_only_counted(connect):
    near, far = connect()
    answer = dump({inode_of(near)})
    assert [c.inode for c in answer.connections] == [inode_of(near)]
    assert inode_of(far) in answer.others
    assert inode_of(near) not in answer.others


def test_listening_socket_and_connection_without_a_process_are_left_out(connect):
    _, listener = connect(accepts=False)
    answer = dump({inode_of(listener)})
    assert answer.connections == []
    assert not {inode_of(listener), 0} & answer.others


PLACES = {  # offset and code of each value of a struct tcp_info
    "timeouts": (2, "B"), "probes": (3, "B"), "under_way": (24, "I"), "round_trip_us": (68, "I"),
    "retransmitted": (100, "I"), "acked": (120, "Q"), "delivery_rate": (160, "Q"), "busy_us": (168, "Q"),
    "no_room_us": (176, "Q"),
}  # fmt: skip


def pack_tcp_info(length=248, **values):
    """Return a struct tcp_info; kernels differ only in its length."""
    info = bytearray(248)
    for name, value in values.items():
        offset, code = PLACES[name]
        struct.pack_into(f"={code}", info, offset, value)
    return bytes(info[:length])


def pack_connection(info, peer="10.0.0.7"):
    """Return a struct inet_diag_msg of socket 4711 with the attributes SHUTDOWN (one byte, padded) and INFO."""
    head = bytes([socket.AF_INET, 1, 0, 0]) + struct.pack(">HH", 40000, 29500)
    addresses = socket.inet_aton("10.0.0.1").ljust(16, b"\0") + socket.inet_aton(peer).ljust(16, b"\0")
    tail = bytes(4 + 8) + struct.pack("=IIIII", 0, 300, 70_000, 1000, 4711)
    attributes = struct.pack("=HHB3x", 5, 8, 0) + struct.pack("=HH", 4 + len(info), 2) + info
    return head + addresses + tail + attributes


def pack_message(kind, body, flags=2):
    length = 16 + len(body)
    return struct.pack("=IHHII", length, kind, flags, 0, 0) + body + bytes(-length % 4)


DONE = pack_message(3, struct.pack("=i", 0))


def test_connection_is_read_in_the_kernels_layout():
    info = pack_tcp_info(round_trip_us=4500, retransmitted=12, delivery_rate=5_000_000, acked=80_000, busy_us=900_000)
    assert connection(pack_connection(info)) == Connection(
        4711, "10.0.0.1", "10.0.0.7", 70_000, 300, 12, 0.0045, 5e6, 80_000, 0.9
    )


VALUES = {  # values of a struct tcp_info → fields of the connection
    # A reader that has no room leaves nothing under way.
    "timeouts while data is under way": ({"timeouts": 6, "under_way": 3}, {"num_timeouts": 6}),
    "no timeouts while nothing is under way": ({"timeouts": 6}, {"num_timeouts": 0}),
    # Without a route nothing is sent; a peer without room answers each probe, which resets the count.
    "probes without an answer": ({"probes": 4}, {"num_timeouts": 4}),
    "timeouts before probes": ({"probes": 4, "timeouts": 2, "under_way": 1}, {"num_timeouts": 2}),
    "time limited by the receive window is not busy": (
        {"busy_us": 900_000, "no_room_us": 300_000}, {"busy_seconds": 0.6}
    ),
    "not yet measured": ({}, {"round_trip_seconds": None, "delivery_bytes_per_second": None}),
    "kernel without busy time": (
        {"length": 168, "acked": 80_000, "delivery_rate": 5_000_000},
        {"acked_bytes": None, "busy_seconds": None, "delivery_bytes_per_second": 5e6},
    ),
    "kernel without delivery rate": (
        {"length": 160, "round_trip_us": 4500, "delivery_rate": 5_000_000},
        {"round_trip_seconds": 0.0045, "delivery_bytes_per_second": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "fields"), VALUES.values(), ids=VALUES)
def test_connection_shows(values, fields):
    shown = connection(pack_connection(pack_tcp_info(**values)))
    assert {name: getattr(shown, name) for name in fields} == fields


@pytest.mark.parametrize("length", [0, 100])
def test_connection_that_is_too_short_is_refused(length):
    with pytest.raises(OSError, match="too short"):
        connection(pack_connection(pack_tcp_info(length)))


def test_part_of_an_answer_is_split_into_messages():
    assert split(pack_message(20, b"one") + pack_message(20, b"second")) == ([b"one", b"second"], True)
    assert split(pack_message(20, b"one") + DONE) == ([b"one"], False)


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (pack_message(20, bytes(100))[:60], OSError, "cut short"),
        (pack_message(20, b"one", flags=0x12), InterruptedError, "changed"),
    ],
    ids=["cut short", "connections changed meanwhile"],
)
def test_incomplete_answer_is_refused(answer, error, reason):
    with pytest.raises(error, match=reason):
        split(answer)


@pytest.fixture
def fake_kernel(monkeypatch):
    """Replace the kernel at the far end of netlink."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(socket, "socket", lambda *_: near)
    yield far
    near.close()
    far.close()


def test_answer_may_come_in_several_parts(fake_kernel):
    for part in (
        pack_message(20, pack_connection(pack_tcp_info())),
        DONE,
        pack_message(20, pack_connection(pack_tcp_info(), "10.0.0.8")) + DONE,
    ):
        fake_kernel.send(part)
    assert [c.peer for c in dump({4711}).connections] == ["10.0.0.7", "10.0.0.8"]


NO_MONITOR, NO_MEMORY = (struct.pack("=i", -code) for code in (errno.ENOENT, errno.ENOMEM))


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (pack_message(2, NO_MONITOR), SourceUnavailable, "modprobe tcp_diag"),
        (pack_message(3, NO_MONITOR), SourceUnavailable, "modprobe tcp_diag"),
        (pack_message(2, NO_MEMORY), OSError, os.strerror(errno.ENOMEM)),
        (pack_message(20, pack_connection(pack_tcp_info())), OSError, "more than 0"),
    ],
    ids=["no monitor for TCP", "no monitor, at the end", "other error", "too many connections"],
)
def test_answer_that_fails_the_read(fake_kernel, monkeypatch, answer, error, reason):
    monkeypatch.setattr(sock_diag, "MAX_OTHERS", 0)
    fake_kernel.send(answer)
    with pytest.raises(error, match=reason):
        dump(set())


def test_kernel_that_does_not_answer_is_a_timeout(fake_kernel, monkeypatch):
    monkeypatch.setattr(sock_diag, "TIMEOUT_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        dump(set())


@pytest.mark.parametrize(
    ("code", "next_step"),
    [("EPERM", "seccomp"), ("EPROTONOSUPPORT", "modprobe inet_diag"), ("EAFNOSUPPORT", "AF_NETLINK")],
)
def test_container_without_netlink_reports_the_source_as_absent(monkeypatch, code, next_step):
    def raise_error(*_):
        raise OSError(getattr(errno, code), "no")

    monkeypatch.setattr(socket, "socket", raise_error)
    with pytest.raises(SourceUnavailable, match=next_step):
        dump(set())
