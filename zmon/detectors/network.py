"""All ranks wait inside a collective: does a host's link or do its connections say that it is the network?

A link that was up a minute ago and is down now is proof. Without it connections tell: what is sent to a host that is
cut off is sent again and again, from everywhere; only from that host is it so towards everybody. Two hosts alone cannot
be told apart so, and none is named for having more connections than others.
"""

from __future__ import annotations

from typing import NamedTuple

from zmon.hardware import HostWindow
from zmon.records import Snapshot


class Accused(NamedTuple):
    """The host whose network stands still, and why it is thought to."""

    host: str
    says: str
    confidence: float


def accused(snapshot: Snapshot) -> Accused | None:
    """The one host that the evidence points at; None where it points at none, or at several."""
    down = [(window.host, device) for window in snapshot.hardware for device in _lost_links(window)]
    if len({host for host, _ in down}) == 1:
        host = down[0][0]
        return Accused(host, f"the link of {', '.join(device for _, device in down)} is down", 0.95)
    shares = {window.host: share for window in snapshot.hardware if (share := _stuck_share(window, snapshot.job_id))}
    most = max(shares.values(), default=0.0)
    hosts = [host for host, share in shares.items() if share == most]
    if len(hosts) != 1 or most < 1.0 or len(snapshot.hardware) < 3:
        return None
    return Accused(hosts[0], "what its ranks send to any peer is sent again and not acknowledged", 0.7)


def _lost_links(window: HostWindow) -> list[str]:
    were_up = {nic.device for nic in (*(window.before.nics or ()), *(window.before.rdma or ())) if nic.up}
    now = (*(window.now.nics or ()), *(window.now.rdma or ()))
    return [nic.device for nic in now if nic.up is False and nic.device in were_up]


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
