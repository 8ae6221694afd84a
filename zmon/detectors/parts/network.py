"""Find the host whose network makes ranks wait inside collectives, by the state of links and connections.

A link that was up a minute ago and is down now is proof. Otherwise the connections tell. When a host is cut off, all
others send it the same data again and again; only the cut-off host does so towards everybody. Over a slow link data
takes long to arrive: few bytes are acknowledged in each second in which bytes are under way. Data that a peer does not
read, or that a rank does not send, does not count. A slow rank therefore makes no link look slow. With only two hosts,
nothing shows which one is at fault. A host is never a culprit only because it has more connections than others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zmon.schema.host import HostWindow, NicSample, TcpPeer, TcpSample
from zmon.schema.job_snapshot import Snapshot

_TICK_SECONDS = 0.01  # the kernel's unit of a connection's busy time; a fast connection may have none


class NetworkCulprit(NamedTuple):
    """The host whose network is at fault, and the reason in words."""

    host: str
    summary: str
    confidence: float
    device: str | None = None


class _Traffic(NamedTuple):
    """The bytes that were acknowledged, and the seconds in which bytes were under way."""

    acked_bytes: int
    busy_seconds: float

    @property
    def rate(self) -> float:
        return self.acked_bytes / max(self.busy_seconds, _TICK_SECONDS)


def stalled_host(snapshot: Snapshot) -> NetworkCulprit | None:
    """Return the one host whose network stands still; None if no host, or more than one, shows that."""
    down = [(window.host, device) for window in snapshot.hardware for device in _lost_links(window)]
    if len({host for host, _ in down}) == 1:
        host, device = down[0]
        return NetworkCulprit(host, f"the link of {', '.join(device for _, device in down)} is down", 0.95, device)
    shares = {window.host: share for window in snapshot.hardware if (share := _stuck_ratio(window, snapshot.job_id))}
    most = max(shares.values(), default=0.0)
    hosts = [host for host, share in shares.items() if share == most]
    if len(hosts) != 1 or most < 1.0 or len(snapshot.hardware) < 3:
        return None
    return NetworkCulprit(
        hosts[0], "its ranks send the same data again to every peer, and no peer acknowledges it", 0.7
    )


def cut_off_host(snapshot: Snapshot) -> NetworkCulprit | None:
    """Return the one host whose ranks use a link that went down and is down now: none of their data can arrive."""
    lost = {
        window.host: device
        for window in snapshot.hardware
        if (device := _device(window)) is not None and device in _lost_links(window)
    }
    if len(lost) != 1:
        return None
    ((host, device),) = lost.items()
    return NetworkCulprit(host, f"the link of {device} is down, and its ranks use it", 0.95, device)


def slow_host(snapshot: Snapshot, times: float, busy_seconds: float) -> NetworkCulprit | None:
    """Return the host if the connections between the other hosts are `times` as fast as its own, or faster; else None.

    A rate is the acknowledged bytes per busy second. Connections that were busy for less than `busy_seconds` do not
    count. The comment of `quicker_ratio` has the rates that trials showed.
    """
    links = _links(snapshot)
    hosts = {host for pair in links for host in pair}
    slowest: tuple[float, str, float, float] = (0.0, "", 0.0, 0.0)
    for host in hosts:
        own = _sum(traffic for pair, traffic in links.items() if host in pair)
        others = _sum(traffic for pair, traffic in links.items() if host not in pair)
        if others.acked_bytes and own.busy_seconds >= busy_seconds:
            ratio = others.rate / max(own.rate, 1.0)
            slowest = max(slowest, (ratio, host, own.rate, others.rate))
    ratio, host, own_rate, others_rate = slowest
    if ratio < times:
        return None
    device = next((_device(window) for window in snapshot.hardware if window.host == host), None)
    return NetworkCulprit(
        host,
        f"its connections{f' ({device})' if device else ''} carry {own_rate / 1e6:.1f} MB/s while they are busy, those "
        f"between the other hosts {others_rate / 1e6:.1f} MB/s ({ratio:.1f} times as fast)",
        0.85,
        device,
    )


def _links(snapshot: Snapshot) -> dict[tuple[str, str], _Traffic]:
    """Return the traffic of the job's ranks from host to host in the last few seconds."""
    host_of = {
        address: window.host for window in snapshot.hardware if window.now.tcp for address in window.now.tcp.addresses
    }
    links: dict[tuple[str, str], _Traffic] = {}
    for window in snapshot.hardware:
        if window.now.tcp is None or window.recent is None:
            continue
        before = _by_peer(window.recent, snapshot.job_id)
        for key, now in _by_peer(window.now.tcp, snapshot.job_id).items():
            pair, sent = (window.host, host_of.get(now.peer, window.host)), _since(before.get(key), now)
            if sent is not None and pair[0] != pair[1]:
                links[pair] = _sum((links.get(pair, _Traffic(0, 0.0)), sent))
    return links


def _by_peer(sample: TcpSample, job_id: str) -> dict[tuple[int, str], TcpPeer]:
    return {(peer.rank, peer.peer): peer for peer in sample.peers if peer.job_id == job_id}


def _since(before: TcpPeer | None, now: TcpPeer) -> _Traffic | None:
    """Return the traffic between two samples; None if it is unknown, or if other connections are open now."""
    if before is None or before.num_sockets != now.num_sockets:
        return None
    if None in (before.acked_bytes, before.busy_seconds, now.acked_bytes, now.busy_seconds):
        return None
    acked = (now.acked_bytes or 0) - (before.acked_bytes or 0)
    busy = (now.busy_seconds or 0.0) - (before.busy_seconds or 0.0)
    return _Traffic(acked, busy) if acked >= 0 and busy >= 0 else None


def _sum(traffic: Iterable[_Traffic]) -> _Traffic:
    every = list(traffic)
    return _Traffic(sum(t.acked_bytes for t in every), sum(t.busy_seconds for t in every))


def is_physical(nic: NicSample) -> bool:
    """Return True for a port of real hardware; a bridge, tunnel or interface of a container comes and goes."""
    return nic.transport != "tcp" or nic.pci is not None


def _may_carry(window: HostWindow, nic: NicSample) -> bool:
    """Return True if the job's traffic may use the interface.

    Sockets show which interfaces they use. RDMA has no sockets, so every RDMA port may carry traffic.
    """
    devices = window.now.tcp.devices if window.now.tcp else ()
    return nic.device in devices if devices and nic.transport == "tcp" else is_physical(nic)


def _lost_links(window: HostWindow) -> list[str]:
    """Return the devices that may carry the job's traffic, are down now and were up a minute ago.

    The interface that the ranks use counts also if it went down earlier.
    """
    were_up = {nic.device for nic in (*(window.before.nics or ()), *(window.before.rdma or ())) if nic.up}
    now = (*(window.now.nics or ()), *(window.now.rdma or ()))
    own = window.worked & frozenset(window.now.tcp.devices if window.now.tcp else ())
    lost = (nic for nic in now if nic.up is False and nic.device in were_up | own)
    return [nic.device for nic in lost if _may_carry(window, nic)]


def _device(window: HostWindow) -> str | None:
    """Return the interface that the ranks of this host use; None if they use several, or none is known."""
    devices = window.now.tcp.devices if window.now.tcp else ()
    return devices[0] if len(devices) == 1 else None


def _stuck_ratio(window: HostWindow, job_id: str) -> float | None:
    """Return the share of the peer addresses that acknowledge nothing any more; None if no peer is known."""
    now, before = window.now.tcp, window.before.tcp
    if now is None or before is None:
        return None
    sent_again = {(p.rank, p.peer): p.retransmitted_segments for p in before.peers if p.job_id == job_id}
    stuck: dict[str, bool] = {}
    for peer in now.peers:
        if peer.job_id == job_id and peer.peer not in now.addresses:
            rose = peer.retransmitted_segments > sent_again.get((peer.rank, peer.peer), 0)
            stuck[peer.peer] = stuck.get(peer.peer, False) or (rose and peer.send_queue_bytes > 0)
    return sum(stuck.values()) / len(stuck) if stuck else None
