"""Tests of slow connections, of one host or between two: the time in which data is under way shows them."""

from dataclasses import replace

import pytest

from tests.build import rank_state, snapshot
from tests.detectors.network.hosts import EIGHT, MB, NODES, cluster, job, window
from zmon.detectors.network.slow_links import slow_network, slow_network_steps


def slow(windows):
    """Return the culprit, with the thresholds of the detector."""
    return slow_network(job(windows), 2.5, 0.1, 1.6)


@pytest.mark.parametrize("host", NODES)
def test_host_behind_a_slow_link_is_named_with_its_device(host):
    culprit = slow(cluster(slow=[host]))
    assert (culprit.hosts, culprit.device) == ((host,), "eth1")
    assert (
        "carry 4.0 MB/s while they are busy, those between the other hosts 40.0 MB/s (10.0 times as fast)"
        in culprit.summary
    )


def test_host_whose_sending_alone_is_slow_is_named():
    windows = cluster()
    windows[2] = window("node-c", dict.fromkeys(("node-a", "node-b", "node-d"), 2 * MB))
    assert slow(windows).hosts == ("node-c",)


def test_slow_host_is_named_in_a_ring():
    rates = {"node-a": 40, "node-b": 4, "node-c": 4, "node-d": 40}  # c is slow in both directions
    windows = [window(h, {NODES[(i + 1) % 4]: rates[h] * MB}) for i, h in enumerate(NODES)]
    assert slow(windows).hosts == ("node-c",)


@pytest.mark.parametrize(
    "windows",
    [
        cluster(),
        cluster(rate=4 * MB),
        cluster(hosts=NODES[:2], slow=["node-b"]),
        [replace(w, recent=None) for w in cluster(slow=["node-b"])],
        [replace(w, now=replace(w.now, tcp=None)) for w in cluster(slow=["node-b"])],
        [],
    ],
    ids=["all well", "all slow", "two hosts", "just seen", "source down", "nothing known"],
)
def test_no_host_is_named_without_a_single_slow_host(windows):
    assert slow_network(snapshot(rank_state(0), hardware=windows), 2.5, 0.1, 1.6) is None


def test_links_that_are_hardly_busy_are_not_slow():
    assert slow(cluster(rate=1e12)) is None
    assert slow(cluster(slow=["node-b"], rate=1e12)).hosts == ("node-b",)


def test_reopened_connections_are_not_compared():
    windows = cluster(slow=["node-b"])
    reopened = replace(windows[1].now.tcp, peers=tuple(replace(p, num_sockets=3) for p in windows[1].now.tcp.peers))
    windows[1] = replace(windows[1], now=replace(windows[1].now, tcp=reopened))
    assert slow(windows).hosts == ("node-b",)  # the traffic of the other hosts to node-b shows it


def test_connections_of_other_jobs_are_ignored():
    assert slow_network(replace(job(cluster(slow=["node-b"])), job_id="another"), 2.5, 0.1, 1.6) is None


# -- a pair ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hosts", [NODES[:3], NODES, EIGHT], ids=["3 hosts", "4 hosts", "8 hosts"])
def test_pair_with_slow_connections_is_named_and_neither_host_alone(hosts):
    culprit = slow(cluster(hosts, slow_pairs=[("node-b", "node-c")]))
    assert (culprit.hosts, culprit.place) == (("node-b", "node-c"), "the network between node-b and node-c")
    assert "the connections between the two carry 4.0 MB/s while they are busy" in culprit.summary
    assert {(link.host, link.peer, link.device) for link in culprit.links} == {
        ("node-b", "node-c", "eth1"),
        ("node-c", "node-b", "eth1"),
    }


def test_pair_that_is_slow_in_one_direction_is_named():
    windows = cluster()
    windows[0] = window("node-a", {"node-b": 2 * MB, "node-c": 40 * MB, "node-d": 40 * MB})
    assert slow(windows).hosts == ("node-a", "node-b")


def test_pair_is_named_in_a_ring():
    rates = {"node-a": 40, "node-b": 4, "node-c": 40, "node-d": 40}
    windows = [window(h, {NODES[(i + 1) % 4]: rates[h] * MB}) for i, h in enumerate(NODES)]
    assert slow(windows).hosts == ("node-b", "node-c")


def test_host_is_named_although_one_of_its_links_is_slower_than_the_rest():
    windows = cluster(slow=["node-c"], slow_rate=8 * MB)
    windows[2] = window("node-c", {"node-a": 8 * MB, "node-b": 2 * MB, "node-d": 8 * MB})
    assert slow(windows).hosts == ("node-c",)


@pytest.mark.parametrize(
    "slow_pairs",
    [
        [("node-a", "node-b"), ("node-c", "node-d")],
        [(a, b) for a in ("node-a", "node-d") for b in ("node-b", "node-c")],
    ],
    ids=["two pairs", "two halves"],
)
def test_nobody_is_named_if_several_pairs_without_a_common_host_are_slow(slow_pairs):
    assert slow(cluster(slow_pairs=slow_pairs)) is None


def test_healthy_pair_with_short_messages_is_not_slow():
    windows = cluster()
    short = window("node-a", {"node-b": 1 * MB}, num_bytes=0.1 * MB)  # 0.1 s for messages that wait for each other
    peers = (*short.now.tcp.peers, *windows[0].now.tcp.peers[1:])
    before = (*short.recent.peers, *windows[0].recent.peers[1:])
    windows[0] = replace(
        windows[0],
        now=replace(windows[0].now, tcp=replace(windows[0].now.tcp, peers=peers)),
        recent=replace(windows[0].recent, peers=before),
    )
    long = [
        window(w.host, dict.fromkeys([n for n in NODES if n != w.host], 40 * MB), num_bytes=20 * MB)
        for w in windows[1:]
    ]
    assert slow([windows[0], *long]) is None


def test_steps_for_a_pair_concern_both_hosts_and_drain_neither():
    steps = slow_network_steps(slow(cluster(slow_pairs=[("node-b", "node-c")])))
    assert "On node-b, and likewise on node-c: `ip route get 10.0.0.3`" in steps
    assert "drain" not in steps
    assert "state=drain" in slow_network_steps(slow(cluster(slow=["node-b"])))
