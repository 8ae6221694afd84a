"""Tests of the cause `network_stall`, which the links and connections of a host show."""

from dataclasses import replace

import pytest

from tests.build import waiting
from tests.detectors.stalls import detect, outside
from zmon.schema.host import HostSample, HostWindow, NicSample, TcpPeer, TcpSample

PCI = "0000:04:00.0"


def host(name, link=True, stuck=(), fine=(), own="10.0.0.1"):
    """Return a host whose rank sends to some peers that acknowledge nothing any more, and to some that do."""
    peers = [TcpPeer("job", 0, peer, 1, 70_000, 0, 9, None, None, num_waiting=1, num_timeouts=3) for peer in stuck]
    peers += [TcpPeer("job", 0, peer, 1, 0, 0, 2, None, None, num_waiting=0, num_timeouts=0) for peer in (*fine, own)]
    now = HostSample(
        nics=(NicSample("eth1", "tcp", link, None, 0, 0, {}, pci=PCI),), tcp=TcpSample(0, tuple(peers), (own,))
    )  # fmt: skip
    before = HostSample(
        nics=(NicSample("eth1", "tcp", True, None, 0, 0, {}, pci=PCI),),
        tcp=TcpSample(0, tuple(replace(peer, retransmitted_segments=2) for peer in peers), (own,)),
    )
    return HostWindow(name, 60.0, before, now)


def test_host_whose_link_went_down_is_named():
    windows = [host("node-a"), host("node-b", link=False)]
    finding = detect(*map(waiting, range(4)), hardware=windows)
    assert (finding.cause, finding.ranks, finding.hosts) == ("network_stall", (), ("node-b",))
    assert "eth1 is down" in finding.summary


def test_host_that_acknowledges_nothing_is_named():
    windows = [
        host("node-a", stuck=["10.0.0.3"], fine=["10.0.0.2"]),
        host("node-b", stuck=["10.0.0.3"], fine=["10.0.0.1"], own="10.0.0.2"),
        host("node-c", stuck=["10.0.0.1", "10.0.0.2"], own="10.0.0.3"),
    ]
    assert detect(*map(waiting, range(4)), hardware=windows).hosts == ("node-c",)


@pytest.mark.parametrize(
    "windows",
    [
        [host("node-a"), host("node-b"), host("node-c")],
        [host("node-a", link=False), host("node-b", link=False)],
        [],
    ],
    ids=["all well", "two links", "nothing known"],
)
def test_no_host_is_named_if_the_network_shows_no_single_culprit(windows):
    assert detect(*map(waiting, range(4)), hardware=windows).cause == "unknown"


def test_link_that_is_down_is_no_network_stall_while_a_rank_is_outside():
    finding = detect(waiting(0), waiting(1), outside(2), waiting(3), hardware=[host("node-b", link=False)])
    assert (finding.cause, finding.ranks) == ("compute_hang", (2,))
