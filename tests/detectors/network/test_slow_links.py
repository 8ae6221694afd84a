"""Tests of slow connections, of one host or between two: the time in which data is under way shows them."""

from dataclasses import replace

import pytest

from tests.detectors.network.hosts import EIGHT, MB, NODES, cluster, job, window, with_tcp
from zmon.detectors.network.slow_links import slow_network, slow_network_steps
from zmon.detectors.slow import Straggler

STRAGGLER = Straggler()


def slow(windows, **changes):
    """Return the slow host or pair of a job on these hosts, by the thresholds of the detector."""
    of_job = replace(job(windows), **changes)
    return slow_network(of_job, STRAGGLER.quicker_ratio, STRAGGLER.busy_seconds, STRAGGLER.alike_ratio)


def changed(host, rates, **cluster_of):
    """Return the cluster, of which one host sends to the others at these rates, in MB/s."""
    rate_of = {f"node-{peer}": rate * MB for peer, rate in rates.items()}
    return [window(w.host, rate_of) if w.host == host else w for w in cluster(**cluster_of)]


def ring(*rates):
    """Return hosts that send to the next one only, at these rates, in MB/s."""
    return [window(h, {NODES[(i + 1) % 4]: rate * MB}) for i, (h, rate) in enumerate(zip(NODES, rates, strict=True))]


def reopened():
    """Return a cluster with the slow host node-b, whose connections to its peers have more sockets than before."""
    windows = cluster(slow=["node-b"])
    peers = tuple(replace(peer, num_sockets=3) for peer in windows[1].now.tcp.peers)
    return [windows[0], with_tcp(windows[1], peers=peers), *windows[2:]]


B, C, BC = ("node-b",), ("node-c",), ("node-b", "node-c")

CULPRITS = {
    **{host: (cluster(slow=[host]), (host,)) for host in NODES},
    "only its sending is slow": (changed("node-c", dict.fromkeys("abd", 2)), C),
    "a ring": (ring(40, 4, 4, 40), C),
    "one of its links is slower still": (changed("node-c", {"a": 8, "b": 2, "d": 8}, slow=C, slow_rate=8 * MB), C),
    "the others are hardly busy": (cluster(slow=B, rate=1e12), B),
    "its connections were reopened, and those to it were not": (reopened(), B),
    "a pair of 3 hosts": (cluster(NODES[:3], slow_pairs=[BC]), BC),
    "a pair of 4": (cluster(NODES, slow_pairs=[BC]), BC),
    "a pair of 8": (cluster(EIGHT, slow_pairs=[BC]), BC),
    "a pair, in one direction": (changed("node-a", {"b": 2, "c": 40, "d": 40}), ("node-a", "node-b")),
    "a pair in a ring": (ring(40, 4, 40, 40), BC),
}


@pytest.mark.parametrize(("windows", "hosts"), CULPRITS.values(), ids=CULPRITS)
def test_slow_host_or_pair_is_the_culprit(windows, hosts):
    assert slow(windows).hosts == hosts


@pytest.mark.timeout(20)  # a scan of all links for each pair of hosts would take a minute
def test_slow_host_of_a_large_job_whose_hosts_all_send_to_each_other_is_the_culprit():
    hosts = [f"node-{chr(ord('a') + number)}" for number in range(160)]
    assert slow(cluster(hosts, slow=B)).hosts == B


def short_messages():
    """Return a cluster whose node-a sends messages to node-b that wait for each other, and long ones to the others."""
    short = window("node-a", {"node-b": 1 * MB}, num_bytes=0.1 * MB)
    first, *others = cluster()
    peers = (*short.now.tcp.peers, *first.now.tcp.peers[1:])
    before = replace(first.recent, peers=(*short.recent.peers, *first.recent.peers[1:]))
    long = [window(w.host, {n: 40 * MB for n in NODES if n != w.host}, num_bytes=20 * MB) for w in others]
    return [replace(with_tcp(first, peers=peers), recent=before), *long]


@pytest.mark.parametrize(
    "windows",
    [
        pytest.param(cluster(), id="all well"),
        pytest.param(cluster(rate=4 * MB), id="all slow"),
        pytest.param(cluster(rate=1e12), id="hardly busy"),
        pytest.param(cluster(hosts=NODES[:2], slow=B), id="two hosts"),
        pytest.param([replace(w, recent=None) for w in cluster(slow=B)], id="just seen"),
        pytest.param([replace(w, now=replace(w.now, tcp=None)) for w in cluster(slow=B)], id="source down"),
        pytest.param(cluster(slow_pairs=[("node-a", "node-b"), ("node-c", "node-d")]), id="two pairs are slow"),
        pytest.param(cluster(slow_pairs=[(a, b) for a in ("node-a", "node-d") for b in BC]), id="two halves"),
        pytest.param(short_messages(), id="short messages"),
    ],
)
def test_quiet_without_a_single_slow_host_or_pair(windows):
    assert slow(windows) is None


@pytest.mark.parametrize("changes", [{"hardware": ()}, {"job_id": "another"}], ids=["no samples", "of another job"])
def test_quiet_without_connections_of_the_job(changes):
    assert slow(cluster(slow=B), **changes) is None


def test_slow_host_is_reported_with_its_device_and_rates():
    host = slow(cluster(slow=B))
    assert host.device == "eth1"
    assert "4.0 MB/s while they are busy, those between the other hosts 40.0 MB/s (10.0 times as fast)" in host.summary


def test_slow_pair_is_reported_with_its_rates_and_links():
    pair = slow(cluster(slow_pairs=[BC]))
    assert pair.place == "the network between node-b and node-c"
    assert "between the two carry 4.0 MB/s while they are busy, those between all other hosts 40.0 MB/s" in pair.summary
    links = [(link.host, link.peer, link.device) for link in pair.links]
    assert sorted(links) == [("node-b", "node-c", "eth1"), ("node-c", "node-b", "eth1")]


def test_steps_for_a_pair_concern_both_hosts():
    steps = slow_network_steps(slow(cluster(slow_pairs=[BC])))
    assert "On node-b, and likewise on node-c: `ip route get 10.0.0.3`" in steps


def test_steps_drain_a_single_host_only():
    assert "state=drain" in slow_network_steps(slow(cluster(slow=B)))
    assert "drain" not in slow_network_steps(slow(cluster(slow_pairs=[BC])))
