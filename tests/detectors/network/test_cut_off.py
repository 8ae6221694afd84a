"""Tests of the evidence, the advice and the confidence of findings about a network through which no data passes."""

from tests.detectors.network.hosts import NODES
from tests.detectors.network.table import RING, STAR, cut, down
from tests.detectors.stalls import STALL


def finding_about(scene):
    """Return the only finding about a job."""
    (finding,) = STALL.detect(scene)
    return finding


def test_finding_about_a_pair_has_devices_addresses_counters_and_steps():
    finding = finding_about(cut("bc"))
    (link,) = finding.evidence.links
    assert (link.host, link.peer, link.device, link.addresses) == ("node-b", "node-c", "eth1", ("10.0.0.3",))
    assert (link.num_connections, link.num_waiting, link.num_timeouts) == (2, 1, 5)
    assert (link.send_queue_bytes, link.retransmitted_segments) == (70_000, 5)
    assert "1 of 2 connections from node-b (eth1) to 10.0.0.3 sent the same data again 5 times" in finding.summary
    for command in ("`ip route get 10.0.0.3`", "`ss -ti dst 10.0.0.3`", "`ping -c 3 -M do -s 8972 10.0.0.3`", "ECMP"):
        assert command in finding.detail


def test_evidence_has_every_link_whose_data_waits():
    for pairs in (("bc", "cb"), ("ab", "cd"), ("ab", "ac", "bc")):
        links = {(link.host, link.peer) for link in finding_about(cut(*pairs)).evidence.links}
        assert links == {(f"node-{first}", f"node-{second}") for first, second in pairs}


def test_single_host_has_its_device():
    cut_off = finding_about(cut("ab", "da", links=RING, silent=STAR))
    without_link = finding_about(down())
    assert cut_off.evidence.device == without_link.evidence.device == "eth1"
    assert "ethtool eth1" in cut_off.detail


def test_pair_without_other_hosts_has_less_confidence():
    two_hosts = finding_about(cut("ab", "ba", hosts=NODES[:2]))
    four_hosts = finding_about(cut("ab", "ba"))
    assert two_hosts.confidence < four_hosts.confidence
