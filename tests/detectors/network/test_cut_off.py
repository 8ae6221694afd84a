"""Tests of lost links: the state of an interface shows them."""

from dataclasses import replace

import pytest

from tests.build import agent_status, disconnected, rank_state, snapshot, waiting
from tests.detectors.network.hosts import NODES, cluster, job, window
from zmon.detectors.network.cut_off import stalled_network
from zmon.detectors.stall import Stall
from zmon.schema.host import NicSample, TcpSample


def stalled(windows):
    return stalled_network(job(windows), 2)


def spare(up=True, **changes):
    return replace(NicSample("eno1", "tcp", up, None, 0, 0, {}, pci="0000:05:00.0"), **changes)


def with_spare(nic):
    """Yield the hosts with another interface, which is down on `node-b`."""
    for host in cluster():
        now = nic if host.host == "node-b" else replace(nic, up=True)
        before = replace(host.before, nics=(*host.before.nics, replace(nic, up=True)))
        yield replace(host, before=before, now=replace(host.now, nics=(*host.now.nics, now)))


@pytest.mark.parametrize("nic", [spare(up=False), spare(up=False, device="docker0", pci=None)], ids=["idle", "bridge"])
def test_unused_interface_that_goes_down_is_no_proof(nic):
    assert stalled(with_spare(nic)) is None


def test_rdma_port_that_goes_down_is_proof_although_no_socket_uses_it():
    culprit = stalled(with_spare(spare(up=False, device="mlx5_0:1", transport="infiniband")))
    assert (culprit.hosts, culprit.device) == (("node-b",), "mlx5_0:1")


def test_physical_link_is_proof_if_the_used_interfaces_are_unknown():
    blind = [replace(w, now=replace(w.now, tcp=None)) for w in with_spare(spare(up=False))]
    assert stalled(blind).device == "eno1"
    bridge = with_spare(spare(up=False, device="docker0", pci=None))
    assert stalled([replace(w, now=replace(w.now, tcp=None)) for w in bridge]) is None


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
