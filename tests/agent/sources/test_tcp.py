"""Tests of TCP connections by rank, with real connections over loopback and with fake /proc trees."""

import os
import socket
import subprocess
import sys
import time

import pytest

from tests.agent.sources.tcp_host import FakeHost
from zmon.agent.sources import tcp
from zmon.agent.sources.tcp import TcpSource, retransmitted_segments


@pytest.fixture
def host(tmp_path):
    return FakeHost(tmp_path)


def test_connections_of_a_rank_to_the_same_address_are_summed(host):
    host.start(100, 3, 11, 12)
    host.kernel.add(11, "10.0.0.2", sent=70_000, unread=5, retransmitted=4, round_trip=0.002, delivery=5e6)
    host.kernel.add(12, "10.0.0.2", sent=1_000, unread=6, retransmitted=1, round_trip=0.009, delivery=None)
    (peer,) = host.peers()
    assert (peer.job_id, peer.rank, peer.peer, peer.num_sockets) == ("dlrm", 3, "10.0.0.2", 2)
    assert (peer.send_queue_bytes, peer.receive_queue_bytes, peer.retransmitted_segments) == (71_000, 11, 5)
    assert (peer.round_trip_seconds, peer.delivery_bytes_per_second) == (0.009, 5e6)


def test_sample_lists_own_addresses_and_their_interfaces(host):
    host.start(100, 0, 11)
    host.kernel.add(11, "10.0.0.2")
    sample = host.source.read().value
    assert (sample.addresses, sample.devices) == (("10.0.0.1",), ("eth1",))


def test_address_without_an_interface_has_no_device(host):
    host.interfaces = {}
    host.start(100, 0, 11)
    host.kernel.add(11, "10.0.0.2")
    assert host.source.read().value.devices == ()


def test_interfaces_are_listed_only_when_an_address_is_new(host):
    host.start(100, 0, 11)
    host.kernel.add(11)
    host.peers()
    host.interfaces = {}
    assert host.source.read().value.devices == ("eth1",)


def test_acknowledged_bytes_and_busy_time_are_summed(host):
    host.start(100, 0, 11, 12)
    host.kernel.add(11, acked_bytes=1_000, busy_seconds=0.5)
    host.kernel.add(12, acked_bytes=3_000, busy_seconds=0.25)
    (peer,) = host.peers()
    assert (peer.acked_bytes, peer.busy_seconds) == (4_000, 0.75)


def test_connections_whose_data_timed_out_are_counted_with_the_most_timeouts(host):
    host.start(100, 0, 11, 12, 13)
    host.kernel.add(11, num_timeouts=2)
    host.kernel.add(12, num_timeouts=5)
    host.kernel.add(13)
    (peer,) = host.peers()
    assert (peer.num_sockets, peer.num_waiting, peer.num_timeouts) == (3, 2, 5)


def test_peers_are_asked_for_an_answer_only_while_the_job_stands_still(host):
    host.start(100, 0, 11, 12, 13)
    host.kernel.add(11, "10.0.0.2")
    host.kernel.add(12, "10.0.0.3")
    host.kernel.add(13, "10.0.0.1")  # another rank of this host
    assert host.source.read().value.answers is None
    host.stands_still, host.answers = True, {"10.0.0.3"}
    assert host.source.read().value.answers == {"10.0.0.2": False, "10.0.0.3": True}
    host.stands_still = False
    assert host.source.read().value.answers is None
    assert host.questions == [{"10.0.0.2": "10.0.0.1", "10.0.0.3": "10.0.0.1"}]


def test_peers_are_asked_for_an_answer_once_data_to_one_of_them_times_out(host):
    host.start(100, 0, 11)
    host.kernel.add(11, "10.0.0.2", num_timeouts=1)
    assert host.source.read().value.answers == {"10.0.0.2": False}


def test_value_without_any_measurement_is_unknown(host):
    host.start(100, 0, 11)
    host.kernel.add(11)
    (peer,) = host.peers()
    assert (peer.round_trip_seconds, peer.delivery_bytes_per_second) == (None, None)
    assert (peer.send_queue_bytes, peer.retransmitted_segments) == (0, 0)
    assert (peer.acked_bytes, peer.busy_seconds) == (None, None)


def test_each_rank_has_its_own_peers(host):
    host.start(100, 0, 11, 12)
    host.start(101, 1, 21, 22)
    for inode, peer in ((11, "10.0.0.2"), (12, "10.0.0.3"), (21, "10.0.0.2"), (22, "10.0.0.3")):
        host.kernel.add(inode, peer)
    assert [(p.rank, p.peer) for p in host.peers()] == [(r, p) for r in (0, 1) for p in ("10.0.0.2", "10.0.0.3")]


def test_peers_with_the_longest_queues_are_read_and_the_others_counted(host):
    host.start(100, 0, *range(1000, 2000))
    for inode in range(1000, 2000):
        host.kernel.add(inode, f"10.0.{inode // 250}.{inode % 250}", sent=inode)
    reading = host.source.read()
    assert len(reading.value.peers) == tcp.MAX_PEERS
    assert min(p.send_queue_bytes for p in reading.value.peers) == 2000 - tcp.MAX_PEERS
    assert reading.dropped == ("488 of 1000 peers, those with the shortest send queues",)


SNMP = "Ip: Forwarding\nIp: 1\nTcp: ActiveOpens RetransSegs InErrs\nTcp: 7 18871 0\nUdp: InErrors\nUdp: 0\n"


def test_retransmissions_of_the_host_are_read_by_name(tmp_path):
    (tmp_path / "snmp").write_text(SNMP)
    assert retransmitted_segments(tmp_path / "snmp") == 18871


@pytest.mark.parametrize("text", [None, "", "Tcp: RetransSegs\n", "Tcp: RetransSegs\nTcp:\n", "Tcp: InErrs\nTcp: 0\n"])
def test_retransmissions_that_cannot_be_read_are_unknown(tmp_path, text):
    if text is not None:
        (tmp_path / "snmp").write_text(text)
    assert retransmitted_segments(tmp_path / "snmp") is None


RANK = """
import socket, sys
ends = [socket.create_connection((address, int(sys.argv[1]))) for address in ("127.0.0.2", "127.0.0.3") for _ in "ab"]
ends[0].setblocking(False)
try:
    while True:
        ends[0].send(bytes(65536))
except BlockingIOError:
    print("ready", flush=True)
sys.stdin.read()
"""


def test_real_ranks_show_queues_to_a_peer_that_does_not_read():
    with socket.create_server(("0.0.0.0", 0)) as listener:
        command = [sys.executable, "-c", RANK, str(listener.getsockname()[1])]
        ranks = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
        try:
            accepted = [listener.accept()[0] for _ in range(8)]
            assert all(rank.stdout.readline() == b"ready\n" for rank in ranks)
            time.sleep(0.1)
            sample = TcpSource(lambda: {rank.pid: ("dlrm", i) for i, rank in enumerate(ranks)}).read().value
            receiver = TcpSource(lambda: {os.getpid(): ("dlrm", 2)}).read().value
        finally:
            for rank in ranks:
                rank.communicate()
    assert [(p.rank, p.peer, p.num_sockets) for p in sample.peers] == [
        (rank, peer, 2) for rank in (0, 1) for peer in ("127.0.0.2", "127.0.0.3")
    ]
    assert all((p.send_queue_bytes > 0) == (p.peer == "127.0.0.2") for p in sample.peers)
    assert sum(p.receive_queue_bytes for p in receiver.peers) > 0
    assert sample.retransmitted_segments is not None
    for end in accepted:
        end.close()
