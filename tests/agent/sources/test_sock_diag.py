"""Tests of the kernel's socket monitor, with real connections over loopback and with prepared answers."""

import contextlib
import errno
import os
import socket
import struct
import time

import pytest

from zmon.agent.sources import sock_diag
from zmon.agent.sources.sock_diag import Connection, dump, parse_connection, split_messages
from zmon.errors import SourceUnavailable


@pytest.fixture
def connect():
    """Connect over loopback; return the end that connected and the end that accepted."""
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
    return os.fstat(end.fileno()).st_ino


def read_connection(end):
    """Return the connection of a socket, once all data in flight has arrived."""
    time.sleep(0.1)
    (parsed,) = dump({inode_of(end)}).connections
    return parsed


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
        connected.sendall(bytes(100_000))
        accepted.recv(100_000, socket.MSG_WAITALL)
    assert read_connection(connected).delivery_bytes_per_second > 1e6


def test_peer_that_does_not_read_lets_both_queues_grow(connect):
    connected, accepted = connect()
    connected.setblocking(False)
    sent = 0
    while True:
        try:
            sent += connected.send(bytes(65536))
        except BlockingIOError:
            break
    waiting, unread = read_connection(connected).send_queue_bytes, read_connection(accepted).receive_queue_bytes
    assert waiting > 0
    assert unread > 0
    assert waiting + unread >= sent  # received data may not be acknowledged yet
    time.sleep(0.5)  # longer than the first timeout
    assert read_connection(connected).num_timeouts == 0


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


def pack_tcp_info(
    length=248,
    round_trip_us=0,
    retransmitted=0,
    delivery_rate=0,
    acked=0,
    received=0,
    busy_us=0,
    no_room_us=0,
    timeouts=0,
    under_way=0,
    probes=0,
):
    """Return a struct tcp_info; kernels differ only in its length."""
    info = bytearray(248)
    struct.pack_into("=BB", info, 2, timeouts, probes)
    struct.pack_into("=I", info, 24, under_way)
    struct.pack_into("=I", info, 68, round_trip_us)
    struct.pack_into("=I", info, 100, retransmitted)
    struct.pack_into("=QQ", info, 120, acked, received)
    struct.pack_into("=QQQ", info, 160, delivery_rate, busy_us, no_room_us)
    return bytes(info[:length])


def pack_connection(info, peer="10.0.0.7"):
    """Return a struct inet_diag_msg of socket 4711 with the attributes SHUTDOWN (one byte, padded) and INFO."""
    head = bytes([socket.AF_INET, 1, 0, 0]) + struct.pack(">HH", 40000, 29500)
    addresses = socket.inet_aton("10.0.0.1").ljust(16, b"\0") + socket.inet_aton(peer).ljust(16, b"\0")
    tail = bytes(4 + 8) + struct.pack("=IIIII", 0, 300, 70_000, 1000, 4711)
    attributes = struct.pack("=HHB3x", 5, 8, 0) + struct.pack("=HH", 4 + len(info), 2) + info
    return head + addresses + tail + attributes


@pytest.mark.parametrize(
    ("under_way", "timeouts"), [pytest.param(3, 6, id="data under way"), pytest.param(0, 0, id="nothing under way")]
)
def test_timeouts_count_only_while_data_is_under_way(under_way, timeouts):
    """A reader that has no room leaves nothing under way."""
    assert parse_connection(pack_connection(pack_tcp_info(timeouts=6, under_way=under_way))).num_timeouts == timeouts


def test_probes_without_an_answer_count_as_timeouts_if_no_data_is_under_way():
    """Without a route nothing is sent; a peer without room answers each probe, which resets the count."""
    assert parse_connection(pack_connection(pack_tcp_info(probes=4))).num_timeouts == 4
    assert parse_connection(pack_connection(pack_tcp_info(probes=4, timeouts=2, under_way=1))).num_timeouts == 2


def pack_message(kind, body, flags=2):
    length = 16 + len(body)
    return struct.pack("=IHHII", length, kind, flags, 0, 0) + body + bytes(-length % 4)


DONE = pack_message(3, struct.pack("=i", 0))


def test_connection_is_read_in_the_kernels_layout():
    info = pack_tcp_info(
        round_trip_us=4500, retransmitted=12, delivery_rate=5_000_000, acked=80_000, received=90_000, busy_us=900_000
    )
    assert parse_connection(pack_connection(info)) == Connection(
        4711, "10.0.0.1", "10.0.0.7", 70_000, 300, 12, 0.0045, 5e6, 80_000, 0.9, received_bytes=90_000
    )


def test_time_limited_by_the_receive_window_is_not_busy():
    assert parse_connection(pack_connection(pack_tcp_info(busy_us=900_000, no_room_us=300_000))).busy_seconds == 0.6


def test_older_kernel_has_no_busy_time():
    parsed = parse_connection(pack_connection(pack_tcp_info(length=168, acked=80_000, delivery_rate=5_000_000)))
    assert (parsed.acked_bytes, parsed.busy_seconds, parsed.delivery_bytes_per_second) == (None, None, 5e6)


def test_acknowledged_bytes_are_counted(connect):
    connected, accepted = connect()
    before = read_connection(connected)
    connected.sendall(bytes(100_000))
    accepted.recv(100_000, socket.MSG_WAITALL)
    assert read_connection(connected).acked_bytes - before.acked_bytes == 100_000


def test_peer_that_does_not_read_keeps_no_connection_busy(connect):
    connected, _ = connect()
    connected.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            connected.send(bytes(65536))
    before = read_connection(connected).busy_seconds
    assert read_connection(connected).busy_seconds - before < 0.05  # of the 0.1 s between the reads


def test_value_that_the_kernel_has_not_measured_is_unknown():
    parsed = parse_connection(pack_connection(pack_tcp_info()))
    assert (parsed.round_trip_seconds, parsed.delivery_bytes_per_second) == (None, None)


def test_older_kernel_has_no_delivery_rate():
    parsed = parse_connection(pack_connection(pack_tcp_info(length=160, round_trip_us=4500, delivery_rate=5_000_000)))
    assert (parsed.round_trip_seconds, parsed.delivery_bytes_per_second) == (0.0045, None)


@pytest.mark.parametrize("length", [0, 100])
def test_connection_that_is_too_short_is_refused(length):
    with pytest.raises(OSError, match="too short"):
        parse_connection(pack_connection(pack_tcp_info(length)))


def test_part_of_an_answer_is_split_into_messages():
    assert split_messages(pack_message(20, b"one") + pack_message(20, b"second")) == ([b"one", b"second"], True)
    assert split_messages(pack_message(20, b"one") + DONE) == ([b"one"], False)


def test_answer_that_is_cut_short_is_refused():
    with pytest.raises(OSError, match="cut short"):
        split_messages(pack_message(20, bytes(100))[:60])


def test_answer_during_which_the_connections_changed_is_refused():
    with pytest.raises(InterruptedError, match="changed"):
        split_messages(pack_message(20, b"one", flags=0x12))


@pytest.fixture
def fake_kernel(monkeypatch):
    """Replace the kernel at the far end of netlink."""
    used, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(socket, "socket", lambda *_: used)
    yield kernel
    used.close()
    kernel.close()


def test_answer_may_come_in_several_parts(fake_kernel):
    for part in (
        pack_message(20, pack_connection(pack_tcp_info())),
        DONE,
        pack_message(20, pack_connection(pack_tcp_info(), "10.0.0.8")) + DONE,
    ):
        fake_kernel.send(part)
    assert [c.peer for c in dump({4711}).connections] == ["10.0.0.7", "10.0.0.8"]


@pytest.mark.parametrize("kind", [2, 3])
def test_kernel_without_a_monitor_for_tcp_is_reported_with_a_next_step(fake_kernel, kind):
    fake_kernel.send(pack_message(kind, struct.pack("=i", -errno.ENOENT)))
    with pytest.raises(SourceUnavailable, match="modprobe tcp_diag"):
        dump(set())


def test_other_netlink_error_fails_the_read(fake_kernel):
    fake_kernel.send(pack_message(2, struct.pack("=i", -errno.ENOMEM)))
    with pytest.raises(OSError, match=os.strerror(errno.ENOMEM)):
        dump(set())


def test_too_many_connections_fail_the_read(fake_kernel, monkeypatch):
    monkeypatch.setattr(sock_diag, "MAX_OTHERS", 0)
    fake_kernel.send(pack_message(20, pack_connection(pack_tcp_info())))
    with pytest.raises(OSError, match="more than 0"):
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
