"""Tests of the network of one host: slow connections are found by busy time, lost links by the link state."""

from dataclasses import replace

import pytest

from tests.build import agent_status, disconnected, rank_state, snapshot, waiting
from zmon.detectors.parts.network import slow_host, stalled_host
from zmon.detectors.stall import Stall
from zmon.schema.host import HostSample, HostWindow, NicSample, TcpPeer, TcpSample

NODES = ("node-a", "node-b", "node-c", "node-d")
MB = 1e6


def address(host):
    return f"10.0.0.{NODES.index(host) + 1}"


def connection_samples(rank, peer, rate):
    """Return the connection of a rank to a peer before and after it sent two megabytes in this time."""
    before = TcpPeer("job", rank, peer, 2, 0, 0, 0, None, None, 1_000_000, 3.0)
    return before, replace(before, acked_bytes=3_000_000, busy_seconds=3.0 + 2 * MB / rate)


def window(host, sends, up=True, before_up=True, worked=frozenset({"eth1"})):
    """Return a host that sent to its peers."""
    pairs = [connection_samples(NODES.index(host), address(peer), rate) for peer, rate in sends.items()]
    now = TcpSample(0, tuple(after for _, after in pairs), (address(host),), ("eth1",))
    nic = NicSample("eth1", "tcp", up, None, 0, 0, {})
    return HostWindow(
        host, 60.0, HostSample(nics=(replace(nic, up=before_up),)), HostSample(nics=(nic,), tcp=now), worked,
        recent=replace(now, peers=tuple(before for before, _ in pairs)),
    )  # fmt: skip


def cluster(hosts=NODES, slow=(), rate=40 * MB, slow_rate=4 * MB):
    """Return hosts that all send to each other; to and from some of them slowly."""
    return [
        window(h, {p: slow_rate if {h, p} & set(slow) else rate for p in hosts if p != h})
        for h in hosts
    ]  # fmt: skip


def job(windows):
    windows = list(windows)
    return snapshot(*(rank_state(i, host=w.host) for i, w in enumerate(windows)), hardware=windows)


@pytest.mark.parametrize("host", NODES)
def test_host_behind_a_slow_link_is_named_with_its_device(host):
    culprit = slow_host(job(cluster(slow=[host])), 2.5, 0.1)
    assert (culprit.host, culprit.device) == (host, "eth1")
    assert (
        "carry 4.0 MB/s while they are busy, those between the other hosts 40.0 MB/s (10.0 times as fast)"
        in culprit.summary
    )


def test_host_whose_sending_alone_is_slow_is_named():
    windows = cluster()
    windows[2] = window("node-c", dict.fromkeys(("node-a", "node-b", "node-d"), 2 * MB))
    assert slow_host(job(windows), 2.5, 0.1).host == "node-c"


def test_slow_host_is_named_in_a_ring():
    rates = {"node-a": 40, "node-b": 4, "node-c": 4, "node-d": 40}  # c is slow in both directions
    windows = [window(h, {NODES[(i + 1) % 4]: rates[h] * MB}) for i, h in enumerate(NODES)]
    assert slow_host(job(windows), 2.5, 0.1).host == "node-c"


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
    assert slow_host(snapshot(rank_state(0), hardware=windows), 2.5, 0.1) is None


def test_links_that_are_hardly_busy_are_not_slow():
    assert slow_host(job(cluster(rate=1e12)), 2.5, 0.1) is None
    assert slow_host(job(cluster(slow=["node-b"], rate=1e12)), 2.5, 0.1).host == "node-b"


def test_reopened_connections_are_not_compared():
    windows = cluster(slow=["node-b"])
    reopened = replace(windows[1].now.tcp, peers=tuple(replace(p, num_sockets=3) for p in windows[1].now.tcp.peers))
    windows[1] = replace(windows[1], now=replace(windows[1].now, tcp=reopened))
    assert slow_host(job(windows), 2.5, 0.1).host == "node-b"  # the traffic of the other hosts to node-b shows it


def test_connections_of_other_jobs_are_ignored():
    assert slow_host(replace(job(cluster(slow=["node-b"])), job_id="another"), 2.5, 0.1) is None


def spare(up=True, **changes):
    return replace(NicSample("eno1", "tcp", up, None, 0, 0, {}, pci="0000:05:00.0"), **changes)


def with_spare(nic):
    """Yield the hosts with another interface, which is down on `node-b`."""
    for window in cluster():
        now = nic if window.host == "node-b" else replace(nic, up=True)
        before = replace(window.before, nics=(*window.before.nics, replace(nic, up=True)))
        yield replace(window, before=before, now=replace(window.now, nics=(*window.now.nics, now)))


@pytest.mark.parametrize("nic", [spare(up=False), spare(up=False, device="docker0", pci=None)], ids=["idle", "bridge"])
def test_unused_interface_that_goes_down_is_no_proof(nic):
    assert stalled_host(job(with_spare(nic))) is None


def test_rdma_port_that_goes_down_is_proof_although_no_socket_uses_it():
    culprit = stalled_host(job(with_spare(spare(up=False, device="mlx5_0:1", transport="infiniband"))))
    assert (culprit.host, culprit.device) == ("node-b", "mlx5_0:1")


def test_physical_link_is_proof_if_the_used_interfaces_are_unknown():
    blind = [replace(w, now=replace(w.now, tcp=None)) for w in with_spare(spare(up=False))]
    assert stalled_host(job(blind)).device == "eno1"
    bridge = with_spare(spare(up=False, device="docker0", pci=None))
    assert stalled_host(job([replace(w, now=replace(w.now, tcp=None)) for w in bridge])) is None


# -- a host that is gone ---------------------------------------------------------------------------------------


def broken(silent):
    """Return a job whose ranks on two hosts died of broken connections; the agent of the third is silent."""
    return snapshot(
        disconnected(0, host="node-a"), disconnected(1, host="node-b"),
        unwatched=[rank_state(2, host="node-c"), rank_state(3, host="node-c")],
        agents=[agent_status("node-a"), agent_status("node-b"), agent_status("node-c", silent)],
    )  # fmt: skip


def test_silent_host_is_lost_if_all_other_ranks_died_of_connections():
    (finding,) = Stall().detect(broken(silent=6.0))
    assert (finding.cause, finding.ranks, finding.hosts) == ("host_lost", (2, 3), ("node-c", "node-c"))


def test_stall_waits_for_the_silent_agent_before_the_host_is_lost():
    assert Stall().detect(broken(silent=3.0)) == ()


# -- a link that went down -----------------------------------------------------------------------------------


def inside(seconds=1.2, **changes):
    """Return four ranks in a collective, within their leases."""
    return [waiting(i, seconds, host=h, overdue_seconds=0.0, **changes) for i, h in enumerate(NODES)]


def down(host="node-b", **changes):
    return [window(h, {}, up=h != host, **(changes if h == host else {})) for h in NODES]


def stall(ranks, windows):
    return next(iter(Stall().detect(snapshot(*ranks, hardware=windows))), None)


def test_link_that_is_down_is_a_network_stall_before_any_lease_ends():
    finding = stall(inside(), down())
    assert (finding.cause, finding.hosts, finding.ranks, finding.severity) == (
        "network_stall",
        ("node-b",),
        (),
        "critical",
    )
    assert finding.evidence.device == "eth1"


def test_network_stall_stays_after_a_minute_without_link():
    assert stall(inside(70.0), down(before_up=False)).cause == "network_stall"


@pytest.mark.parametrize(
    ("ranks", "windows"),
    [
        (inside(0.4), down()),
        ([*inside()[:3], rank_state(3, host="node-d")], down()),
        (inside(), down("nobody")),
        (inside(), down(before_up=False, worked=frozenset())),
        (inside(), [replace(w, now=replace(w.now, tcp=TcpSample(0, ()))) for w in down()]),
    ],
    ids=["just entered", "a rank computes", "links up", "never was up", "not the job's"],
)
def test_stall_reports_nothing_without_proof_of_a_lost_link(ranks, windows):
    assert stall(ranks, windows) is None
