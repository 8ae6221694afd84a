"""Find the host, or the pair of hosts, whose connections are slower than those between the other hosts.

Over a slow link data takes long to arrive: few bytes are acknowledged in each second in which bytes are under way. Data
that a peer does not read, or that a rank does not send, does not count. A slow rank therefore makes no link look slow.
With only two hosts, there is nothing to compare with. If all links of a host are slow, the host is named. If one link
is slow, the pair is named, because the path between the two may be the reason. A link that carries only short messages
has a low rate, too; so only the links with the most busy time are judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zmon.detectors.network.cut_off import MAX_LINKS, NetworkCulprit, next_steps
from zmon.detectors.network.host_links import Pair, host_links, pair, used_device
from zmon.detectors.new_finding import drain
from zmon.schema.job_snapshot import Snapshot

_TICK_SECONDS = 0.01  # the kernel's unit of a connection's busy time; a fast connection may have none


class _Traffic(NamedTuple):
    """The bytes that were acknowledged, and the seconds in which bytes were under way."""

    acked_bytes: int
    busy_seconds: float

    @property
    def rate(self) -> float:
        """The acknowledged bytes per busy second."""
        return self.acked_bytes / max(self.busy_seconds, _TICK_SECONDS)

    def ratio(self, slower: _Traffic) -> float:
        """Return how many times as fast as the slower traffic this traffic is; 0 without traffic."""
        return self.rate / max(slower.rate, 1.0)

    def without(self, part: _Traffic) -> _Traffic:
        """Return the rest of this traffic."""
        return _Traffic(self.acked_bytes - part.acked_bytes, max(self.busy_seconds - part.busy_seconds, 0.0))


def slow_network(
    snapshot: Snapshot, quicker_ratio: float, busy_seconds: float, alike_ratio: float | None = None
) -> NetworkCulprit | None:
    """Return the host or the pair of hosts whose connections are slow, else None.

    All other connections together must be `quicker_ratio` times as fast. In addition:

    - For a host, they must be `alike_ratio` times as fast as the host without its busiest link.
    - For a pair, each other pair that is about as busy must be `alike_ratio` times as fast.

    `alike_ratio` is `quicker_ratio` by default. Connections that were busy for less than `busy_seconds` do not count.
    """
    alike_ratio = quicker_ratio if alike_ratio is None else alike_ratio
    links = [link for link in host_links(snapshot) if link.acked_bytes is not None]
    traffic_by_pair: defaultdict[Pair, list[_Traffic]] = defaultdict(list)
    for link in links:
        traffic_by_pair[pair(link)].append(_Traffic(link.acked_bytes or 0, link.busy_seconds or 0.0))
    pairs = {hosts: _total(traffic) for hosts, traffic in traffic_by_pair.items()}
    host = _slow_host(pairs, quicker_ratio, alike_ratio, busy_seconds)
    hosts = frozenset((host,)) if host is not None else _slow_pair(pairs, quicker_ratio, alike_ratio, busy_seconds)
    if hosts is None:
        return None
    device = next((used_device(window) for window in snapshot.hardware if window.host == host), None)
    slow = _total(traffic for between, traffic in pairs.items() if hosts <= between)
    return NetworkCulprit(
        hosts=tuple(sorted(hosts)),
        summary=_summary(host is not None, device, slow, _total(pairs.values()).without(slow)),
        confidence=0.85 if host is not None else 0.8,
        device=device,
        links=tuple(link for link in links if hosts <= pair(link))[:MAX_LINKS],
    )


def _summary(is_host: bool, device: str | None, slow: _Traffic, others: _Traffic) -> str:
    """Compare the slow connections, of one host or of a pair (`is_host`), with the others."""
    if is_host:
        whose, elsewhere = "its connections", "between the other hosts"
    else:
        whose, elsewhere = "the connections between the two", "between all other hosts"
    if device:
        whose += f" ({device})"
    return (
        f"{whose} carry {slow.rate / 1e6:.1f} MB/s while they are busy, those {elsewhere} {others.rate / 1e6:.1f} MB/s "
        f"({others.ratio(slow):.1f} times as fast)"
    )


def slow_network_steps(culprit: NetworkCulprit) -> str:
    """Return what to do about a slow network."""
    if len(culprit.hosts) > 1:
        first, second = culprit.hosts
        return (
            f"Measure it: `iperf3 -s` on {first}, `iperf3 -c {first} -P 4 -t 5` on {second}, then the same between "
            f"each of them and a third host. {next_steps(culprit)}"
        )
    (host,) = culprit.hosts
    device = culprit.device or "IFACE"
    return (
        f"On {host}: `ethtool {device}` (speed), `ethtool -S {device}` (errors, pauses), "
        f"`tc -s qdisc show dev {device}` (is traffic shaped?), `sar -n DEV 2 3` (other traffic); then cable, switch "
        "port and the switch's own counters. "
        f"If it does not improve: {drain(host)}."
    )


def _slow_host(
    pairs: Mapping[Pair, _Traffic], quicker_ratio: float, alike_ratio: float, busy_seconds: float
) -> str | None:
    """Return the host with the slowest links, if they are slow also without the busiest of them."""
    links_by_host: defaultdict[str, list[_Traffic]] = defaultdict(list)
    for hosts, traffic in pairs.items():
        for host in hosts:
            links_by_host[host].append(traffic)
    all_traffic = _total(pairs.values())
    ratios: dict[str, float] = {}
    for host, links in links_by_host.items():
        own_traffic = _total(links)
        others = all_traffic.without(own_traffic)
        num_others = len(pairs) - len(links)
        ratio = others.ratio(own_traffic)
        is_busier = own_traffic.busy_seconds * num_others >= others.busy_seconds * len(links)
        if ratio < quicker_ratio or own_traffic.busy_seconds < busy_seconds or not is_busier:
            continue
        by_busy_time = sorted(links, key=lambda traffic: traffic.busy_seconds)
        judged = [traffic for traffic in by_busy_time[:-1] if traffic.busy_seconds >= busy_seconds / len(links)]
        if judged and others.ratio(_total(judged)) >= alike_ratio:
            ratios[host] = ratio
    return max(ratios, key=lambda host: (ratios[host], host), default=None)


def _slow_pair(
    pairs: Mapping[Pair, _Traffic], quicker_ratio: float, alike_ratio: float, busy_seconds: float
) -> Pair | None:
    """Return the pair of hosts between which the connections are slow; None if another pair is about as slow."""
    busiest = max(pairs, key=lambda hosts: pairs[hosts].busy_seconds, default=None)
    if busiest is None or pairs[busiest].busy_seconds < busy_seconds:
        return None
    slow = pairs[busiest]
    others = [traffic for hosts, traffic in pairs.items() if hosts != busiest]
    about_as_busy = [traffic for traffic in others if traffic.busy_seconds >= slow.busy_seconds / 2]
    if any(traffic.ratio(slow) < alike_ratio for traffic in about_as_busy):
        return None
    return busiest if _total(others).ratio(slow) >= quicker_ratio else None


def _total(traffic: Iterable[_Traffic]) -> _Traffic:
    acked_bytes, busy_seconds = 0, 0.0
    for part in traffic:
        acked_bytes += part.acked_bytes
        busy_seconds += part.busy_seconds
    return _Traffic(acked_bytes, busy_seconds)
