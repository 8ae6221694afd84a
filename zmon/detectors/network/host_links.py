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
    host_of = host_by_address(snapshot.hardware)
    links: dict[tuple[str, str], HostLink] = {}
    for window in snapshot.hardware:
        before = by_peer(window.recent, snapshot.job_id)
        for key, now in by_peer(window.now.tcp, snapshot.job_id).items():
            peer = host_of.get(now.peer)
            if peer is not None and peer != window.host:
                link = _link(window, peer, before.get(key), now)
                earlier = links.get((window.host, peer))
                links[window.host, peer] = link if earlier is None else _joined(earlier, link)
    return list(links.values())


def pair(link: HostLink) -> Pair:
    """Return the two hosts of a link."""
    return frozenset((link.host, link.peer))


def used_device(window: HostWindow) -> str | None:
    """Return the interface that the ranks of this host use; None if they use several, or none is known."""
    devices = window.now.tcp.devices if window.now.tcp else ()
    return devices[0] if len(devices) == 1 else None


def host_by_address(windows: Iterable[HostWindow]) -> dict[str, str]:
    """Return the host of each address that ranks use."""
    return owners((w.host, w.now.tcp.addresses) for w in windows if w.now.tcp)


def owners(addresses_of_hosts: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Return the host of each address; an address that several hosts have is left out."""
    pairs = [(address, host) for host, addresses in addresses_of_hosts for address in addresses]
    counts = Counter(address for address, _ in pairs)
    return {address: host for address, host in pairs if counts[address] == 1}


def by_peer(sample: TcpSample | None, job_id: str) -> Mapping[tuple[int, str], TcpPeer]:
    """Return the connections of the job's ranks by rank and address of the peer."""
    peers = sample.peers if sample else ()
    return {(peer.rank, peer.peer): peer for peer in peers if peer.job_id == job_id}


def _link(window: HostWindow, peer: str, before: TcpPeer | None, now: TcpPeer) -> HostLink:
    """Return the link with the connections of one rank to one address of a host, `peer`."""
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
    acked_bytes = now.acked_bytes - before.acked_bytes
    busy_seconds = now.busy_seconds - before.busy_seconds
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
    if first is None or second is None:
        return second if first is None else first
    return first + second
