"""Tests of TCP connections by rank, with real connections over loopback and with fake /proc trees."""

import socket

import pytest

from zmon.agent.sources import tcp
from zmon.agent.sources.tcp import TcpSource, retransmitted_segments
from zmon.process import process_id

SUMS = {  # connections of a rank to one address → fields of the peer
    "queues and retransmissions": (
        [{"sent": 70_000, "unread": 5, "retransmitted": 4}, {"sent": 1_000, "unread": 6, "retransmitted": 1}],
        {"send_queue_bytes": 71_000, "receive_queue_bytes": 11, "retransmitted_segments": 5, "num_sockets": 2},
    ),
    "largest round trip and delivery": (
        [{"round_trip": 0.002, "delivery": 5e6}, {"round_trip": 0.009}],
        {"round_trip_seconds": 0.009, "delivery_bytes_per_second": 5e6},
    ),
    "acknowledged bytes and busy time": (
        [{"acked_bytes": 1_000, "busy_seconds": 0.5}, {"acked_bytes": 3_000, "busy_seconds": 0.25}],
        {"acked_bytes": 4_000, "busy_seconds": 0.75},
    ),
    "connections whose data timed out, with the most timeouts": (
        [{"num_timeouts": 2}, {"num_timeouts": 5}, {}], {"num_sockets": 3, "num_waiting": 2, "num_timeouts": 5}
    ),
    "no measurement: unknown, and zero bytes": (
        [{}],
        {"round_trip_seconds": None, "delivery_bytes_per_second": None, "acked_bytes": None, "busy_seconds": None,
         "send_queue_bytes": 0, "retransmitted_segments": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("connections", "fields"), SUMS.values(), ids=SUMS)
def test_connections_of_a_rank_to_the_same_address_are_summed(host, connections, fields):
    host.start(100, 3, *range(len(connections)))
    for inode, values in enumerate(connections):
        host.kernel.add(inode, "10.0.0.2", **values)
    (peer,) = host.peers()
    assert (peer.job_id, peer.rank, peer.peer) == ("dlrm", 3, "10.0.0.2")
    assert {name: getattr(peer, name) for name in fields} == fields


def test_sample_lists_own_addresses_and_their_interfaces_anew_only_for_a_new_address(host):
    host.start(100, 0, 11)
    host.kernel.add(11, "10.0.0.2")
    sample = host.source.read().value
    assert (sample.addresses, sample.devices) == (("10.0.0.1",), ("eth1",))
    host.interfaces = {}
    assert host.source.read().value.devices == ("eth1",)


def test_address_without_an_interface_has_no_device(host):
    host.interfaces = {}
    host.start(100, 0, 11)
    host.kernel.add(11, "10.0.0.2")
    assert host.source.read().value.devices == ()


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


def test_each_rank_has_its_own_peers(host):
    host.start(100, 0, 11, 12)
    host.start(101, 1, 21, 22)
    for inode, peer in ((11, "10.0.0.2"), (12, "10.0.0.3"), (21, "10.0.0.2"), (22, "10.0.0.3")):
        host.kernel.add(inode, peer)
    assert [(p.rank, p.peer) for p in host.peers()] == [(r, p) for r in (0, 1) for p in ("10.0.0.2", "10.0.0.3")]


def test_peers_with_the_longest_queues_are_read_and_the_others_counted(host):
    number = tcp.MAX_PEERS + 10
    host.start(100, 0, *range(number))
    for inode in range(number):
        host.kernel.add(inode, f"10.0.{inode // 250}.{inode % 250}", sent=inode)
    reading = host.source.read()
    assert sorted(peer.send_queue_bytes for peer in reading.value.peers) == [*range(10, number)]
    assert reading.dropped == (f"10 of {number} peers, those with the shortest send queues",)


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
import socket, sys, time
addresses = ["127.0.0.2", "127.0.0.2", "127.0.0.3"]
ends = [socket.create_connection((address, int(sys.argv[1]))) for address in addresses]
print("ready", flush=True)
time.sleep(60)
"""


def test_connections_of_real_ranks_are_known_by_rank_and_peer(start_python):
    """tests/agent/sources/test_sock_diag.py has the queues of real connections."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = str(listener.getsockname()[1])
        ranks = {process_id(start_python(RANK, port).pid): ("dlrm", rank) for rank in range(2)}
        sample = TcpSource(lambda: ranks).read().value
    peers = [(peer.rank, peer.peer, peer.num_sockets) for peer in sample.peers]
    assert peers == [(rank, peer, number) for rank in (0, 1) for peer, number in (("127.0.0.2", 2), ("127.0.0.3", 1))]
    assert sample.retransmitted_segments is not None
