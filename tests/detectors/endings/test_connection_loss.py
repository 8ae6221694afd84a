"""Tests of a lost connection: the pair of ranks is named only if times and addresses prove it."""

from dataclasses import replace

from msgspec import UNSET

from tests.build import NOW, disconnected, snapshot, terminated, words
from zmon.detectors.stall import Stall
from zmon.schema.host import HostSample, HostWindow, TcpSample

HOSTS = ("node-a", "node-b", "node-c", "node-d")
ERROR = "[gloo/transport/tcp/pair.cc:534] Connection reset by peer [10.0.0.{}]:9401"


def victim(rank, ago, peer, host=None, wrapped=False):
    """Return a rank whose connection to the host with the number `peer` broke so many seconds ago."""
    error = ERROR.format(peer + 1)
    own = words("exception", "builtins.RuntimeError", error, NOW - ago)
    if wrapped:
        own = replace(own, type="train.StepError", message="the step failed", root=f"builtins.RuntimeError: {error}")
    own = replace(own, in_collective=True)
    return disconnected(rank, 1.0, last_words=own, last_words_seconds=ago, host=host or HOSTS[rank])


def windows():
    """Return the hardware of the hosts. The connections of the dead ranks are gone, and with them the addresses."""
    earlier = [HostSample(tcp=TcpSample(0, (), (f"10.0.0.{number + 1}",))) for number in range(4)]
    return [
        HostWindow(host, 60.0, before, HostSample(tcp=TcpSample(0, ())))
        for host, before in zip(HOSTS, earlier, strict=True)
    ]


def detect(*ranks, hardware=()):
    return next(iter(Stall().detect(snapshot(*ranks, hardware=hardware))), None)


def test_pair_on_two_hosts_is_named_if_each_error_has_the_address_of_the_other():
    later = [victim(0, 1.2, 2), victim(3, 1.2, 2)]
    finding = detect(victim(1, 2.0, 2, wrapped=True), victim(2, 1.995, 1, wrapped=True), *later, hardware=windows())
    assert (finding.cause, finding.hosts, finding.evidence.pair) == ("connection_lost", ("node-b", "node-c"), (1, 2))
    assert "10.0.0.3" in finding.summary  # of the wrapped error
    assert "10.0.0.3" in finding.detail


def test_nobody_is_named_if_the_addresses_are_of_other_hosts():
    """The host of rank 3 may be one of the pair."""
    ranks = [victim(0, 1.2, 2), victim(1, 2.0, 3), victim(2, 1.995, 3), victim(3, 1.2, 2)]
    finding = detect(*ranks, hardware=windows())
    assert (finding.cause, finding.hosts, finding.evidence.pair) == ("connection_lost", (), UNSET)


def test_nobody_is_named_on_two_hosts_if_the_owners_of_the_addresses_are_not_known():
    finding = detect(victim(1, 2.0, 2), victim(2, 1.995, 1), victim(0, 1.2, 2), victim(3, 1.2, 2))
    assert (finding.cause, finding.hosts, finding.severity) == ("connection_lost", (), "critical")


def test_pair_on_one_host_is_named_by_exact_times():
    ranks = [victim(rank, ago, 0, "node-a") for rank, ago in ((0, 1.2), (1, 2.0), (2, 1.995), (3, 1.25))]
    assert detect(*ranks).evidence.pair == (1, 2)


def test_two_victims_are_no_pair_if_the_others_were_ended_on_other_hosts():
    ended = [replace(terminated(rank), last_words_seconds=1.0, host=HOSTS[rank]) for rank in (0, 3)]
    finding = detect(victim(1, 2.0, 2), victim(2, 1.995, 1), *ended)
    assert (finding.cause, finding.hosts) == ("connection_lost", ())
