"""Tests of hosts that cannot reach each other: data that times out again and again shows it."""

from dataclasses import replace

import pytest

from tests.build import flight, pending, waiting
from tests.detectors.network.hosts import EIGHT, NODES, address, answered, connection, job, mesh
from tests.detectors.stalls import detect, outside
from zmon.detectors.network.cut_off import stalled_network

RING = ("ab", "bc", "cd", "da")


def stalled(windows):
    return stalled_network(job(windows), 2)


def stall(windows, *ranks):
    ranks = ranks or tuple(waiting(n, host=w.host, world_size=len(windows)) for n, w in enumerate(windows))
    return detect(*ranks, hardware=windows)


@pytest.mark.parametrize("cut", [("bc", "cb"), ("bc",), ("cb",)], ids=["both directions", "forth", "back"])
@pytest.mark.parametrize("hosts", [NODES[:3], NODES, EIGHT], ids=["3 hosts", "4 hosts", "8 hosts"])
def test_pair_that_cannot_reach_each_other_is_named_and_no_rank(cut, hosts):
    finding = stall(mesh(cut, hosts))
    assert (finding.cause, finding.hosts, finding.ranks) == ("network_stall", ("node-b", "node-c"), ())
    assert "no data passes between node-b and node-c" in finding.summary
    assert "both reach other hosts, so the path between them is at fault" in finding.summary
    assert {(link.host, link.peer) for link in finding.evidence.links} == {
        (f"node-{first}", f"node-{second}") for first, second in cut
    }


def test_finding_about_a_pair_has_devices_addresses_counters_and_steps():
    finding = stall(mesh(("bc",)))
    (link,) = finding.evidence.links
    assert (link.device, link.addresses, link.num_connections, link.num_waiting) == ("eth1", ("10.0.0.3",), 2, 1)
    assert (link.num_timeouts, link.send_queue_bytes, link.retransmitted_segments) == (5, 70_000, 5)
    assert "1 of 2 connections from node-b (eth1) to 10.0.0.3 sent the same data again 5 times" in finding.summary
    for command in ("`ip route get 10.0.0.3`", "`ss -ti dst 10.0.0.3`", "`ping -c 3 -M do -s 8972 10.0.0.3`", "ECMP"):
        assert command in finding.detail


def test_two_hosts_are_both_named_with_less_confidence():
    two, four = (stall(mesh(("ab", "ba"), hosts)) for hosts in (NODES[:2], NODES))
    assert two.hosts == ("node-a", "node-b")
    assert two.confidence < four.confidence
    assert "there are no other hosts, so nothing shows which of the two" in two.summary


def test_host_with_a_single_peer_is_named_only_together_with_that_peer():
    assert stalled(mesh(("ab",), links=("ab", "bc", "cd"))).hosts == ("node-a", "node-b")


@pytest.mark.parametrize(
    ("cut", "links"),
    [
        (("ab", "ac", "ad", "ba", "ca", "da"), None),
        (("ab", "da"), RING),
        (("ab", "da"), None),
        (("ab", "ac", "ad"), ("ab", "ac", "ad")),
        (("ab",), None),
        (("ba",), None),
    ],
    ids=["all to all", "ring", "ring among open connections", "star", "one sender", "one sender to it"],
)
def test_host_that_no_other_host_reaches_is_named_alone(cut, links):
    culprit = stalled(mesh(cut, links=links, silent=("ab", "ac", "ad")))
    assert culprit.hosts == ("node-a",)


def test_host_that_is_cut_off_is_named_with_its_device():
    culprit = stalled(mesh(("ab", "da"), links=RING))
    assert (culprit.hosts, culprit.device) == (("node-a",), "eth1")


def unasked(windows):
    return [answered(window) for window in windows]


@pytest.mark.parametrize(
    "windows",
    [
        unasked(mesh(("ab",))),
        mesh(("ab",), silent=[a + b for a in "abcd" for b in "abcd"]),
        [*mesh(("ab",))[:1], *unasked(mesh(("ab",))[1:])],
    ],
    ids=["not asked yet", "a firewall drops all questions", "one host was not asked"],
)
def test_no_host_is_named_for_one_pair_while_it_is_not_known_what_else_they_reach(windows):
    """Nothing shows whether the two hosts lost each other, or one of them lost all others.

    Data times out only where a rank sends. If only one rank sends, a host that reaches nobody looks like one cut pair.
    """
    finding = stall(windows)
    assert (finding.cause, finding.hosts, finding.ranks) == ("network_stall", (), ())
    assert "whether the two reach other hosts is not known" in finding.summary


def test_host_that_refuses_questions_but_gets_answers_does_not_count_as_cut_off():
    windows = mesh(("ab",), silent=("ab", "ac", "bc", "cd"))
    assert stalled([*windows[:2], mesh(("ab",))[2], windows[3]]).hosts == ("node-a", "node-b")
    assert stalled(unasked(windows[:2]) + windows[2:]).hosts == ()


def test_answers_although_data_times_out_point_at_the_size_of_packets():
    recent = mesh(("ab",), silent=(), timeouts=4)
    finding = stall([replace(w, recent=r.now.tcp) for w, r in zip(mesh(("ab",), silent=()), recent, strict=True)])
    assert finding.hosts == ("node-a", "node-b")
    assert "short packets pass, so an MTU on the path" in finding.summary


@pytest.mark.parametrize("cut", [("ab",), ("ab", "ac", "ad")], ids=["pair", "host"])
def test_nobody_is_named_once_packets_pass_again_and_data_only_waits_for_its_next_timeout(cut):
    windows = [replace(window, recent=window.now.tcp) for window in mesh(cut, silent=())]
    assert stalled(windows) is None


def test_host_that_reaches_a_third_one_is_not_cut_off():
    assert stalled(mesh(("ab", "ac"))).hosts == ()


def test_neighbour_in_a_ring_is_not_taken_for_a_host_that_is_cut_off():
    assert stalled(mesh(("ab",), links=RING)).hosts == ("node-a", "node-b")


def test_small_group_that_reaches_nobody_else_is_named():
    cut = [a + b for a in "ab" for b in "cdefgh"]
    assert stalled(mesh(cut, EIGHT)).hosts == ("node-a", "node-b")


@pytest.mark.parametrize(
    ("cut", "links"),
    [
        (("ab", "ac", "db", "dc"), None),
        (("ab", "cd"), None),
        (("ab", "cd"), RING),
        (("ab",), None),
        (("ab", "ac", "bc"), None),
        (("ab", "ac"), ("ab", "ac", "ad")),
    ],
    ids=["two halves", "two pairs", "two halves of a ring", "halves, one sender", "triangle", "two leaves of a star"],
)
def test_no_host_is_named_if_several_pairs_have_no_host_in_common(cut, links):
    halves = ("ab", "ac", "db", "dc") if len(cut) == 1 else cut
    finding = stall(mesh(cut, links=links, silent=halves))
    assert (finding.cause, finding.hosts, finding.ranks) == ("network_stall", (), ())
    assert "node-a and node-b" in finding.summary
    assert len(finding.evidence.links) == len(cut)


def test_first_timeout_elsewhere_counts_once_a_second_proves_the_cut():
    windows = unasked(mesh(("ab",)))
    later = unasked(mesh(("da",), timeouts=1))
    assert stalled([*windows[:3], later[3]]).hosts == ("node-a",)


@pytest.mark.parametrize("hosts", [NODES, NODES[:2]], ids=["4 hosts", "2 hosts"])
def test_stall_is_no_network_stall_while_all_data_is_acknowledged(hosts):
    assert stall(mesh((), hosts)).cause == "unknown"


def changed(**changes):
    """Return hosts of which the first one's connections to the second differ."""
    windows = mesh()
    tcp = windows[0].now.tcp
    peers = (connection(0, address("node-b"), **changes), *tcp.peers[1:])
    return [replace(windows[0], now=replace(windows[0].now, tcp=replace(tcp, peers=peers))), *windows[1:]]


@pytest.mark.parametrize(
    "changes",
    [
        {"send_queue_bytes": 3_000_000, "receive_queue_bytes": 3_000_000, "retransmitted_segments": 40},
        {"retransmitted_segments": 9000},
        {"num_sockets": 5},
        {"timeouts": 1},
        {"timeouts": 5, "num_timeouts": None, "num_waiting": None},
    ],
    ids=["slow reader", "lossy but moving", "restarted connections", "one lost packet", "older agent"],
)
def test_connection_without_data_that_times_out_again_is_quiet(changes):
    sockets = changes.pop("num_sockets", None)
    windows = changed(**changes) if sockets is None else changed()
    assert stalled(windows) is None


def test_connection_to_storage_is_quiet():
    assert (
        stalled(
            [
                replace(w, now=replace(w.now, tcp=replace(w.now.tcp, peers=(connection(0, "10.9.9.9", 5),))))
                for w in mesh()
            ]
        )
        is None
    )


def test_address_that_every_host_has_joins_no_hosts():
    """Ranks of one host use loopback, or a bridge for containers that has the same address everywhere."""
    windows = []
    for number, window in enumerate(mesh()):
        tcp = window.now.tcp
        local = connection(number, "127.0.0.1", 5)
        tcp = replace(tcp, peers=(*tcp.peers, local), addresses=(*tcp.addresses, "127.0.0.1"))
        windows.append(replace(window, now=replace(window.now, tcp=tcp)))
    assert stalled(windows) is None


def test_connections_of_another_job_are_quiet():
    assert stalled_network(replace(job(mesh(("ab", "ba"))), job_id="another"), 2) is None


def test_pair_is_no_network_stall_while_a_rank_is_outside_of_collectives():
    ranks = [waiting(0), waiting(1), outside(2), waiting(3)]
    finding = stall(mesh(("ab", "ba")), *ranks)
    assert (finding.cause, finding.ranks) == ("compute_hang", (2,))


def test_pair_is_named_although_the_other_hosts_are_one_collective_ahead():
    """The pair's ranks have not issued the collective of the others, because they wait themselves."""
    ranks = [waiting(n, host=host, in_flight=None, phase="backward") for n, host in enumerate(NODES)]
    flights = {n: flight(pending(301 if n < 2 else 302)) for n in range(4)}
    finding = detect(*ranks, hardware=mesh(("ab", "ba")), flights=flights)
    assert (finding.cause, finding.hosts) == ("network_stall", ("node-a", "node-b"))


def test_pair_is_not_named_while_a_host_is_unwatched():
    ranks = [waiting(n, host=host) for n, host in enumerate(NODES[:3])]
    assert detect(*ranks, hardware=mesh(("ab", "ba"))[:3]).cause == "unknown"
