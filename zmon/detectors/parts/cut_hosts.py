"""Infer from the pairs of hosts that exchange nothing any more where the network is cut.

One pair: the two hosts, and neither of them alone. All pairs of one host: that host. All pairs between a few hosts and
the rest: the few hosts. Anything else, such as two halves of a cluster, is a fault of the network for which no host can
be named. A pair without traffic proves nothing: a ring uses only two connections of each host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from zmon.detectors.parts.host_links import Pair


def cut_hosts(cut: Collection[Pair], idle: Collection[Pair]) -> tuple[str, ...]:
    """Return the hosts to name; none if the cut pairs do not point at some of the hosts.

    `cut` has the pairs that exchange nothing although data is under way, `idle` the other pairs with connections.
    """
    if len(cut) < 2:
        return tuple(sorted(next(iter(cut), ())))
    apart = _apart(cut, idle)
    common = frozenset.intersection(*cut)
    if common and not apart - common:
        return tuple(common)
    return tuple(sorted(apart)) if not common and all(pair & apart for pair in cut) else ()


def _apart(cut: Collection[Pair], idle: Collection[Pair]) -> frozenset[str]:
    """Return the hosts that no idle pair connects with the largest group of hosts; none if no group is the largest."""
    groups = _groups({host for pair in (*cut, *idle) for host in pair}, idle)
    largest, *others = sorted(groups, key=len, reverse=True)
    if others and len(others[0]) == len(largest):
        return frozenset()
    return frozenset().union(*others)


def _groups(hosts: Iterable[str], pairs: Iterable[Pair]) -> list[frozenset[str]]:
    """Return the groups of hosts that the pairs connect."""
    groups = [frozenset((host,)) for host in sorted(hosts)]
    for pair in pairs:
        joined = [group for group in groups if group & pair]
        groups = [group for group in groups if not group & pair] + [frozenset().union(*joined)]
    return groups
