"""Ranks wait inside collectives: does a host's link or do its connections say that it is the network?

A link that was up a minute ago and is down now is proof. Without it connections tell: what is sent to a host that is
cut off is sent again and again, from everywhere; only from that host is it so towards everybody. And what goes over a
slow link takes long to arrive: few bytes are acknowledged per second in which some are under way. What a peer does not
read, or a rank does not send, counts for nothing there, so that a slow rank makes no link look slow. Two hosts alone
cannot be told apart, and none is named for having more connections than others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zmon.schema.host import HostWindow, NicSample, TcpPeer, TcpSample
from zmon.schema.snapshot import Snapshot

_TICK_SECONDS = 0.01  # in which the kernel counts how long a connection was busy; of fast ones it may count none


class Accused(NamedTuple):
    """The host whose network stands still, and why it is thought to."""

    host: str
    says: str
    confidence: float
    device: str | None = None


class _Traffic(NamedTuple):
    """What was acknowledged, and for how long it was under way."""

    acked_bytes: int
    busy_seconds: float

    @property
    def rate(self) -> float:
        return self.acked_bytes / max(self.busy_seconds, _TICK_SECONDS)


def accused(snapshot: Snapshot) -> Accused | None:
    """The one host that the evidence points at; None where it points at none, or at several."""
    down = [(window.host, device) for window in snapshot.hardware for device in _lost_links(window)]
    if len({host for host, _ in down}) == 1:
        host, device = down[0]
        return Accused(host, f"the link of {', '.join(device for _, device in down)} is down", 0.95, device)
    shares = {window.host: share for window in snapshot.hardware if (share := _stuck_share(window, snapshot.job_id))}
    most = max(shares.values(), default=0.0)
    hosts = [host for host, share in shares.items() if share == most]
    if len(hosts) != 1 or most < 1.0 or len(snapshot.hardware) < 3:
        return None
    return Accused(hosts[0], "what its ranks send to any peer is sent again and not acknowledged", 0.7)


def cut_off(snapshot: Snapshot) -> Accused | None:
    """The one host whose ranks talk over a link that went down and is down now: nothing of theirs can arrive."""
    found = {
        window.host: device
        for window in snapshot.hardware
        if (device := _device(window)) is not None and device in _lost_links(window)
    }
    if len(found) != 1:
        return None
    ((host, device),) = found.items()
    return Accused(host, f"the link of {device} is down, which its ranks talk over", 0.95, device)


def slow_host(snapshot: Snapshot, times: float, busy_seconds: float) -> Accused | None:
    """The host whose connections carry less than the `times`-th part of what those among the others do, while busy.

    What trials showed stands with the threshold (`quicker_ratio`). Connections that were under way for less than
    `busy_seconds` tell nothing.
    """
    links = _links(snapshot)
    hosts = {host for pair in links for host in pair}
    slowest: tuple[float, str, float, float] = (0.0, "", 0.0, 0.0)
    for host in hosts:
        own = _sum(traffic for pair, traffic in links.items() if host in pair)
        others = _sum(traffic for pair, traffic in links.items() if host not in pair)
        if others.acked_bytes and own.busy_seconds >= busy_seconds:
            behind = others.rate / max(own.rate, 1.0)
            slowest = max(slowest, (behind, host, own.rate, others.rate))
    behind, host, own_rate, others_rate = slowest
    if behind < times:
        return None
    device = next((_device(window) for window in snapshot.hardware if window.host == host), None)
    return Accused(
        host,
        f"what its connections{f' ({device})' if device else ''} have under way arrives at {own_rate / 1e6:.1f} MB/s, "
        f"between the other hosts at {others_rate / 1e6:.1f} MB/s ({behind:.1f} times as fast)",
        0.85,
        device,
    )


def _links(snapshot: Snapshot) -> dict[tuple[str, str], _Traffic]:
    """What the job's ranks sent from host to host in the last few seconds."""
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
    """None: it is not known, or other connections are open than were."""
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


def of_a_card(nic: NicSample) -> bool:
    """Whether it is a port of some hardware, and no bridge, tunnel or container's end: those come and go."""
    return nic.transport != "tcp" or nic.pci is not None


def _may_carry(window: HostWindow, nic: NicSample) -> bool:
    """Whether the job's traffic may go over it: a port of RDMA, which no socket tells of, or what its sockets use."""
    devices = window.now.tcp.devices if window.now.tcp else ()
    return nic.device in devices if devices and nic.transport == "tcp" else of_a_card(nic)


def _lost_links(window: HostWindow) -> list[str]:
    """Those of the job that are down and were up a minute ago; the one its ranks talk over also if it went earlier."""
    were_up = {nic.device for nic in (*(window.before.nics or ()), *(window.before.rdma or ())) if nic.up}
    now = (*(window.now.nics or ()), *(window.now.rdma or ()))
    own = window.worked & frozenset(window.now.tcp.devices if window.now.tcp else ())
    lost = (nic for nic in now if nic.up is False and nic.device in were_up | own)
    return [nic.device for nic in lost if _may_carry(window, nic)]


def _device(window: HostWindow) -> str | None:
    """The interface that the ranks of this host talk over, where it is one."""
    devices = window.now.tcp.devices if window.now.tcp else ()
    return devices[0] if len(devices) == 1 else None


def _stuck_share(window: HostWindow, job_id: str) -> float | None:
    """How many of the addresses that the job's ranks here talk to take nothing any more; None: they are not known."""
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
