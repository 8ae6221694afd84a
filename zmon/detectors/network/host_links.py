"""Add up the TCP connections of a job's ranks from host to host.

A link has a direction: it is everything that the ranks of one host send to the ranks of another. Connections to
addresses of no watched host of the job, or of several of them (loopback, a bridge for containers), do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from zmon.schema.evidence import HostLink
from zmon.schema.host import HostWindow, TcpPeer, TcpSample
from zmon.schema.job_snapshot import Snapshot

Pair = frozenset[str]  # the names of two hosts
_Number = TypeVar("_Number", int, float)


def host_links(snapshot: Snapshot) -> list[HostLink]:
    """Return the links between the hosts of the job, one for each direction in which ranks have connections."""
    host_of = _host_by_address(snapshot.hardware)
    links: dict[tuple[str, str], HostLink] = {}
    for window in snapshot.hardware:
        before = _by_peer(window.recent, snapshot.job_id)
        for key, now in _by_peer(window.now.tcp, snapshot.job_id).items():
            peer = host_of.get(now.peer)
            if peer is not None and peer != window.host:
                link = _link(window, peer, before.get(key), now)
                earlier = links.get((window.host, peer))
                links[window.host, peer] = link if earlier is None else _joined(earlier, link)
    return list(links.values())


def reached_pairs(snapshot: Snapshot) -> tuple[set[Pair], set[Pair]]:
    """Return the pairs of hosts that answered each other just now, and those that did not.

    A host that answers nobody may refuse all such requests, so its silence proves nothing.
    """
    host_of = _host_by_address(snapshot.hardware)
    questions = [
        (window.host, host_of[address], answered)
        for window in snapshot.hardware
        for address, answered in ((window.now.tcp.answers if window.now.tcp else None) or {}).items()
        if address in host_of and host_of[address] != window.host
    ]
    answering = {peer for _, peer, answered in questions if answered}
    reached = {frozenset((host, peer)) for host, peer, answered in questions if answered}
    silent = {frozenset((host, peer)) for host, peer, answered in questions if not answered and peer in answering}
    return reached, silent - reached


def answering_hosts(snapshot: Snapshot) -> set[str]:
    """Return the hosts that answered another host or refused the hub just now, also those whose agents are silent."""
    up = {agent.host for agent in snapshot.agents if agent.host is not None and agent.host_is_up}
    owners = _owners(snapshot.addresses.items())
    questions = [w.now.tcp.answers for w in snapshot.hardware if w.now.tcp and w.now.tcp.answers]
    return up | {
        owners[address] for each in questions for address, answered in each.items() if answered and address in owners
    }


def pairs_with_lost_data(snapshot: Snapshot) -> set[Pair]:
    """Return the pairs of hosts whose data timed out once more in the last few seconds, although the peer answered."""
    host_of = _host_by_address(snapshot.hardware)
    pairs: set[Pair] = set()
    for window in snapshot.hardware:
        before = _by_peer(window.recent, snapshot.job_id)
        answers = (window.recent.answers if window.recent else None) or {}
        for key, now in _by_peer(window.now.tcp, snapshot.job_id).items():
            earlier = before.get(key)
            rose = earlier is not None and (earlier.num_timeouts or 0) < (now.num_timeouts or 0)
            if rose and answers.get(now.peer) and now.peer in host_of:
                pairs.add(frozenset((window.host, host_of[now.peer])))
    return pairs


def pair(link: HostLink) -> Pair:
    """Return the two hosts of a link."""
    return frozenset((link.host, link.peer))


def used_device(window: HostWindow) -> str | None:
    """Return the interface that the ranks of this host use; None if they use several, or none is known."""
    devices = window.now.tcp.devices if window.now.tcp else ()
    return devices[0] if len(devices) == 1 else None


def _host_by_address(windows: Iterable[HostWindow]) -> dict[str, str]:
    return _owners((w.host, w.now.tcp.addresses) for w in windows if w.now.tcp)


def _owners(addresses_of_hosts: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Return the host of each address; an address that several hosts have is left out."""
    owners = [(address, host) for host, addresses in addresses_of_hosts for address in addresses]
    counts = Counter(address for address, _ in owners)
    return {address: host for address, host in owners if counts[address] == 1}


def _by_peer(sample: TcpSample | None, job_id: str) -> Mapping[tuple[int, str], TcpPeer]:
    peers = sample.peers if sample else ()
    return {(peer.rank, peer.peer): peer for peer in peers if peer.job_id == job_id}


def _link(window: HostWindow, peer: str, before: TcpPeer | None, now: TcpPeer) -> HostLink:
    acked_bytes, busy_seconds = _traffic(before, now) or (None, None)
    return HostLink(
        host=window.host,
        device=used_device(window),
        peer=peer,
        addresses=(now.peer,),
        num_connections=now.num_sockets,
        num_waiting=now.num_waiting,
        num_timeouts=now.num_timeouts,
        send_queue_bytes=now.send_queue_bytes,
        retransmitted_segments=now.retransmitted_segments,
        acked_bytes=acked_bytes,
        busy_seconds=busy_seconds,
    )


def _traffic(before: TcpPeer | None, now: TcpPeer) -> tuple[int, float] | None:
    """Return the bytes and the busy seconds since the earlier sample; None if other connections are open now."""
    if before is None or before.num_sockets != now.num_sockets:
        return None
    if before.acked_bytes is None or before.busy_seconds is None or now.acked_bytes is None or now.busy_seconds is None:
        return None
    acked_bytes, busy_seconds = now.acked_bytes - before.acked_bytes, now.busy_seconds - before.busy_seconds
    return (acked_bytes, busy_seconds) if acked_bytes >= 0 and busy_seconds >= 0 else None


def _joined(first: HostLink, second: HostLink) -> HostLink:
    """Return the link with the connections of both."""
    return msgspec.structs.replace(
        first,
        addresses=tuple(sorted({*first.addresses, *second.addresses})),
        num_connections=first.num_connections + second.num_connections,
        num_waiting=_sum(first.num_waiting, second.num_waiting),
        num_timeouts=max((n for n in (first.num_timeouts, second.num_timeouts) if n is not None), default=None),
        send_queue_bytes=first.send_queue_bytes + second.send_queue_bytes,
        retransmitted_segments=first.retransmitted_segments + second.retransmitted_segments,
        acked_bytes=_sum(first.acked_bytes, second.acked_bytes),
        busy_seconds=_sum(first.busy_seconds, second.busy_seconds),
    )


def _sum(first: _Number | None, second: _Number | None) -> _Number | None:
    """Return the sum of the values that are known."""
    return second if first is None else first if second is None else first + second
