"""Find the hosts whose network makes ranks wait inside collectives, by the state of links and connections.

A link that was up a minute ago and is down now is proof. Otherwise the connections tell: data that times out, is sent
again and times out again does not arrive, or its acknowledgement does not. Data that a peer does not read, or that a
rank does not send, does not time out. `cut_hosts.py` infers from the pairs of hosts with such connections where the
network is cut. If two hosts cannot reach each other, nothing shows which of them is at fault, or whether a switch
between them is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET

from zmon.detectors.network.cut_hosts import cut_hosts, pairs_with_lost_data, reached_pairs
from zmon.detectors.network.host_links import Pair, host_links, pair, used_device
from zmon.format import listed
from zmon.schema.evidence import HostLink, StallEvidence
from zmon.schema.host import HostWindow, NicSample
from zmon.schema.job_snapshot import Snapshot

MAX_LINKS = 16  # in the evidence
_SHOWN_PAIRS = 4


class NetworkCulprit(NamedTuple):
    """The hosts whose network is at fault, and the reason in words; no hosts if it is at fault between many."""

    hosts: tuple[str, ...]
    summary: str
    confidence: float
    device: str | None = None
    links: tuple[HostLink, ...] = ()

    @property
    def evidence(self) -> StallEvidence:
        """The evidence of a finding about these hosts."""
        return StallEvidence(device=self.device, links=self.links or UNSET)

    @property
    def place(self) -> str:
        """The network that is at fault, in words."""
        return f"the network {'of' if len(self.hosts) == 1 else 'between'} {' and '.join(self.hosts) or 'hosts'}"


def stalled_network(snapshot: Snapshot, num_timeouts: int) -> NetworkCulprit | None:
    """Return the hosts whose network stands still; None if no link is down and all data is acknowledged.

    Data does not arrive if it timed out `num_timeouts` times in a row.
    """
    down = [(window.host, device) for window in snapshot.hardware for device in _lost_links(window)]
    if len({host for host, _ in down}) == 1:
        host, device = down[0]
        devices = ", ".join(device for _, device in down)
        return NetworkCulprit((host,), f"on {host} the link of {devices} is down", 0.95, device)
    links = host_links(snapshot)
    if not any((link.num_timeouts or 0) >= num_timeouts for link in links):
        return None
    # If data times out between two hosts, the first timeout counts elsewhere too: it may be a little later there.
    waiting = [link for link in links if link.num_timeouts]
    reached, silent = reached_pairs(snapshot)
    stuck = {pair(link) for link in waiting}
    if (stuck & reached) - pairs_with_lost_data(snapshot):
        return None  # packets pass again, and TCP waits for its next timeout
    cut = stuck | silent
    idle = {pair(link) for link in links} - cut
    hosts = cut_hosts(cut, idle, reached - cut)
    used = next((link.device for link in waiting if (link.host,) == hosts), None)
    if len(cut) == 1:
        summary, confidence = _pair_text(hosts, waiting, idle, reached)
    else:
        summary, confidence = _cut_text(hosts, waiting, cut)
    return NetworkCulprit(hosts, summary, confidence, used, tuple(waiting[:MAX_LINKS]))


def cut_off_host(snapshot: Snapshot) -> NetworkCulprit | None:
    """Return the one host whose ranks use a link that went down and is down now: none of their data can arrive."""
    lost = {
        window.host: device
        for window in snapshot.hardware
        if (device := used_device(window)) is not None and device in _lost_links(window)
    }
    if len(lost) != 1:
        return None
    ((host, device),) = lost.items()
    summary = f"on {host} the link of {device} is down, and its ranks use it"
    return NetworkCulprit((host,), summary, 0.95, device)


def next_steps(culprit: NetworkCulprit) -> str:
    """Return what to do about a pair of hosts, or about hosts that cannot reach each other."""
    link = culprit.links[0]
    address = link.addresses[0]
    device = link.device or "IFACE"
    return (
        f"On {link.host}, and likewise on {link.peer}: `ip route get {address}`, `ip neigh show {address}`, "
        f"`ss -ti dst {address}`, `ping -c 3 {address}`, then `ping -c 3 -M do -s 8972 {address}` (`-s 1472` if `ip "
        f"link show {device}` has an MTU of 1500). If only short packets pass, a device on the path has a smaller MTU. "
        f"If none pass: a firewall rule, a route, a duplicate address. If all pass: `ethtool -S {device}` (errors), "
        "and the switches between the two; a bad member of a LAG, or a bad ECMP path, hits only some connections."
    )


def _pair_text(
    hosts: tuple[str, ...], waiting: Sequence[HostLink], idle: set[Pair], reached: set[Pair]
) -> tuple[str, float]:
    """Describe two hosts between which no data passes, and return the confidence that only these two are cut off."""
    both = pair(waiting[0])
    text = f"no data passes between {' and '.join(sorted(both))}: {_waiting_text(waiting)}"
    if both in reached:
        text += "; but short packets pass, so an MTU on the path, or one of several paths, is likely at fault"
    if not hosts:
        return f"{text}; whether the two reach other hosts is not known", 0.5
    if all(any(host in other for other in reached - {both}) for host in hosts):
        return f"{text}; both reach other hosts, so the path between them is at fault, or a rule on one of them", 0.9
    alone = "there are no other hosts" if not idle else "one of them has no connections to other hosts"
    return f"{text}; {alone}, so nothing shows which of the two, or the path between them, is at fault", 0.6


def _cut_text(hosts: tuple[str, ...], waiting: Sequence[HostLink], cut: set[Pair]) -> tuple[str, float]:
    """Describe several pairs of hosts between which no data passes, and return the confidence in the culprits."""
    most = max(link.num_timeouts or 0 for link in waiting)
    again = f"the same data was sent again up to {most} times in a row, and no answer comes"
    if hosts:
        others = sorted(frozenset().union(*cut) - set(hosts))
        return f"no data passes between {' and '.join(hosts)} and {listed(others, _SHOWN_PAIRS)}: {again}", 0.8
    names = listed([" and ".join(sorted(cut_pair)) for cut_pair in sorted(cut, key=sorted)], _SHOWN_PAIRS)
    reason = "they do not point at one host, so a switch between the hosts is likely at fault"
    return f"no data passes between these pairs of hosts: {names} ({again}); {reason}", 0.6


def _waiting_text(waiting: Sequence[HostLink]) -> str:
    """Describe the connections in which data waits, in each direction."""
    return ", ".join(
        f"{link.num_waiting} of {link.num_connections} connections from {link.host}"
        f"{f' ({link.device})' if link.device else ''} to {' '.join(link.addresses)} sent the same data again "
        f"{link.num_timeouts} times in a row"
        for link in waiting
    )


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
    used = window.worked & frozenset(window.now.tcp.devices if window.now.tcp else ())
    lost = (nic for nic in now if nic.up is False and nic.device in were_up | used)
    return [nic.device for nic in lost if _may_carry(window, nic)]
