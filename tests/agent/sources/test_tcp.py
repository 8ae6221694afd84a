"""Tests of TCP connections by rank, with real connections over loopback and with fake /proc trees."""

import os
import socket
import subprocess
import sys
import time

import pytest

from zmon.agent.sources import tcp
from zmon.agent.sources.sock_diag import Connection, Dump
from zmon.agent.sources.tcp import TcpSource, retransmitted_segments


class FakeKernel:
    """The connections of a fake host, and the number of dumps."""

    def __init__(self):
        self.connections = []
        self.num_dumps = 0

    def add(self, inode, peer="10.0.0.2", sent=0, unread=0, retransmitted=0, round_trip=None, delivery=None, **more):
        connection = Connection(inode, "10.0.0.1", peer, sent, unread, retransmitted, round_trip, delivery, **more)
        self.connections.append(connection)

    def dump(self, wanted):
        self.num_dumps += 1
        connections = [c for c in self.connections if c.inode in wanted]
        return Dump(connections, {c.inode for c in self.connections if c.inode not in wanted})


class FakeHost:
    """A /proc tree, the ranks that live there, and the source that reads them."""

    def __init__(self, proc):
        self.proc, self.kernel, self.ranks = proc, FakeKernel(), {}
        self._link("self/ns/net", "net:[4026531840]")
        self.interfaces = {"10.0.0.1": "eth1", "192.168.0.1": "eth0"}
        self.stands_still, self.questions, self.answers = False, [], frozenset()
        self.source = TcpSource(
            lambda: self.ranks, proc, self.kernel.dump, lambda: self.interfaces, lambda: self.stands_still, self._ask
        )

    def _ask(self, own_addresses):
        self.questions.append(own_addresses)
        return self.answers

    def _link(self, path, target):
        (self.proc / path).parent.mkdir(parents=True, exist_ok=True)
        (self.proc / path).symlink_to(target)

    def start(self, pid, rank, *inodes, namespace=4026531840):
        """Add a process with stdin, a pipe, an event descriptor and sockets. It is a rank if `rank` is not None."""
        self._link(f"{pid}/ns/net", f"net:[{namespace}]")
        targets = ["/dev/null", "pipe:[77]", "anon_inode:[eventfd]", *(f"socket:[{inode}]" for inode in inodes)]
        for number, target in enumerate(targets):
            self._link(f"{pid}/fd/{number}", target)
        if rank is not None:
            self.ranks = {**self.ranks, pid: ("dlrm", rank)}

    def peers(self):
        return self.source.read().value.peers


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


def test_socket_of_another_process_belongs_to_no_rank(host):
    host.start(100, 0, 11)
    host.start(200, None, 99)
    host.kernel.add(99)
    assert host.peers() == ()


def test_rank_without_connections_has_no_peer(host):
    host.start(100, 0)
    host.start(101, 1, 11)
    host.kernel.add(11)
    assert [p.rank for p in host.peers()] == [1]


def test_kernel_is_not_queried_on_a_host_without_ranks(host):
    host.start(200, None, 99)
    host.kernel.add(99)
    assert host.source.read().value.peers == ()
    assert host.kernel.num_dumps == 0


def test_new_socket_of_a_rank_counts_from_the_next_read(host):
    host.start(100, 0)
    host.peers()
    (host.proc / "100/fd/9").symlink_to("socket:[11]")
    host.kernel.add(11)
    assert host.peers() == ()
    assert [p.peer for p in host.peers()] == ["10.0.0.2"]


def test_rank_that_appears_later_has_its_existing_sockets(host):
    host.start(100, 0, 11)
    host.start(101, None, 21)
    host.kernel.add(21)
    host.peers()
    host.ranks = {**host.ranks, 101: ("dlrm", 1)}
    assert [p.rank for p in host.peers()] == [1]


def test_sockets_of_other_processes_do_not_cause_a_search_at_each_read(host, monkeypatch):
    searches = []
    monkeypatch.setattr(tcp, "socket_inodes", lambda folder: searches.append(folder) or iter(()))
    host.start(100, 0)
    host.kernel.add(99)
    for _ in range(5):
        host.peers()
    assert len(searches) == 2  # one for the new rank, and one for the socket of the other process


def test_rank_in_another_network_namespace_is_reported_without_peers(host):
    host.start(100, 0, 11, namespace=4026532999)
    reading = host.source.read()
    assert reading.value.peers == ()
    (line,) = reading.dropped
    assert "dlrm rank 0" in line
    assert "network namespace" in line
    assert host.kernel.num_dumps == 0
    assert host.source.read().dropped == reading.dropped


def test_rank_with_unlistable_sockets_hides_no_other(host):
    host.start(100, 0, 11)
    host.start(101, 1, 21)
    host.kernel.add(21)
    (host.proc / "100/fd").rename(host.proc / "away")
    (host.proc / "100/fd").write_text("no folder")
    reading = host.source.read()
    assert [p.rank for p in reading.value.peers] == [1]
    (line,) = reading.dropped
    assert line.startswith("dlrm rank 0: cannot list its sockets: Not a directory")


def test_rank_that_just_ended_is_not_dropped(host):
    host.ranks = {100: ("dlrm", 0)}
    assert host.source.read().dropped == ()


def test_descriptor_closed_during_the_listing_hides_no_other(host, monkeypatch):
    def readlink(path):
        if path.endswith("fd/3"):
            raise FileNotFoundError(path)
        return "socket:[12]"

    host.start(100, 0, 11, 12)
    host.kernel.add(12)
    monkeypatch.setattr(os, "readlink", readlink)
    assert list(tcp.socket_inodes(host.proc / "100/fd")) == [12] * 4


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


def test_real_rank_in_another_network_namespace_is_reported():
    with subprocess.Popen(["unshare", "--net", "--map-root-user", "cat"], stdin=subprocess.PIPE) as rank:
        own_namespace = os.readlink("/proc/self/ns/net")  # noqa: PTH115
        deadline = time.monotonic() + 10
        while os.readlink(f"/proc/{rank.pid}/ns/net") == own_namespace and time.monotonic() < deadline:  # noqa: PTH115
            time.sleep(0.01)
        (line,) = TcpSource(lambda: {rank.pid: ("dlrm", 0)}).read().dropped
        rank.stdin.close()
    assert "network namespace" in line
