"""Find the host, or the pair of hosts, whose connections are slower than those between the other hosts.

Over a slow link data takes long to arrive: few bytes are acknowledged in each second in which bytes are under way. Data
that a peer does not read, or that a rank does not send, does not count. A slow rank therefore makes no link look slow.
With only two hosts, there is nothing to compare with. If all links of a host are slow, it is that host. If one of them
is, it is the pair, because the path between the two may be the reason. A link that carries only short messages has a
low rate, too; so only the links with the most busy time are judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zmon.detectors.network.cut_off import SHOWN, NetworkCulprit, next_steps
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
        return self.acked_bytes / max(self.busy_seconds, _TICK_SECONDS)

    def times_as_fast(self, other: _Traffic) -> float:
        """Return how many times as fast as the other this traffic is; 0 if this is none."""
        return self.rate / max(other.rate, 1.0)


def slow_network(
    snapshot: Snapshot, times: float, busy_seconds: float, alike_times: float | None = None
) -> NetworkCulprit | None:
    """Return the host or the pair of hosts if the other connections are `times` as fast, or faster; else None.

    A rate is acknowledged bytes per busy second. Two rates are alike if the higher one is less than `alike_times` the
    lower one; the default is `times`. Connections that were busy for less than `busy_seconds` do not count.
    `quicker_ratio` in `zmon/detectors/slow/straggler.py` has the rates that trials showed.
    """
    alike_times = times if alike_times is None else alike_times
    links = [link for link in host_links(snapshot) if link.acked_bytes is not None]
    traffic_of: defaultdict[Pair, list[_Traffic]] = defaultdict(list)
    for link in links:
        traffic_of[pair(link)].append(_Traffic(link.acked_bytes or 0, link.busy_seconds or 0.0))
    pairs = {hosts: _total(traffic) for hosts, traffic in traffic_of.items()}
    host = _slow_host(pairs, times, alike_times, busy_seconds)
    hosts = frozenset((host,)) if host is not None else _slow_pair(pairs, times, alike_times, busy_seconds)
    if hosts is None:
        return None
    device = next((used_device(window) for window in snapshot.hardware if window.host == host), None)
    slow = _total(traffic for each, traffic in pairs.items() if hosts <= each)
    others = _total(traffic for each, traffic in pairs.items() if not hosts <= each)
    whose, elsewhere = (
        ("its connections", "between the other hosts")
        if host is not None
        else ("the connections between the two", "between all other hosts")
    )
    return NetworkCulprit(
        hosts=tuple(sorted(hosts)),
        summary=f"{whose}{f' ({device})' if device else ''} carry {slow.rate / 1e6:.1f} MB/s while they are busy, "
        f"those {elsewhere} {others.rate / 1e6:.1f} MB/s ({others.times_as_fast(slow):.1f} times as fast)",
        confidence=0.85 if host is not None else 0.8,
        device=device,
        links=tuple(link for link in links if hosts <= pair(link))[:SHOWN],
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


def _slow_host(pairs: Mapping[Pair, _Traffic], times: float, alike_times: float, busy_seconds: float) -> str | None:
    """Return the host whose links are slow, also without the one that was busiest."""
    slowest: tuple[float, str | None] = (0.0, None)
    for host in sorted({host for each in pairs for host in each}):
        links = sorted((traffic for each, traffic in pairs.items() if host in each), key=lambda each: each.busy_seconds)
        others = [traffic for each, traffic in pairs.items() if host not in each]
        ratio = _total(others).times_as_fast(_total(links))
        is_busier = _total(links).busy_seconds * len(others) >= _total(others).busy_seconds * len(links)
        if ratio < times or _total(links).busy_seconds < busy_seconds or not is_busier:
            continue
        without_busiest = [traffic for traffic in links[:-1] if traffic.busy_seconds >= busy_seconds / len(links)]
        if without_busiest and _total(others).times_as_fast(_total(without_busiest)) >= alike_times:
            slowest = max(slowest, (ratio, host))
    return slowest[1]


def _slow_pair(pairs: Mapping[Pair, _Traffic], times: float, alike_times: float, busy_seconds: float) -> Pair | None:
    """Return the pair of hosts between which the connections are slow; None if another pair is about as slow."""
    busiest = max(pairs, key=lambda each: pairs[each].busy_seconds, default=None)
    if busiest is None or pairs[busiest].busy_seconds < busy_seconds:
        return None
    slow, others = pairs[busiest], [traffic for each, traffic in pairs.items() if each != busiest]
    is_alone = all(t.times_as_fast(slow) >= alike_times for t in others if t.busy_seconds >= slow.busy_seconds / 2)
    return busiest if is_alone and _total(others).times_as_fast(slow) >= times else None


def _total(traffic: Iterable[_Traffic]) -> _Traffic:
    every = list(traffic)
    return _Traffic(sum(t.acked_bytes for t in every), sum(t.busy_seconds for t in every))
