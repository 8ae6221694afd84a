"""Infer from the pairs of hosts between which nothing passes where the network is cut.

If one pair is cut, both hosts are named. If all pairs of one host are cut, that host is named. If all pairs between a
few hosts and the others are cut, the few hosts are named. In all other cases, such as two halves of a cluster, no host
is named.

A pair without traffic may be cut as well. In a ring, each host sends only to its neighbours, and in a small collective
perhaps only one rank sends. Then a host that reaches nobody looks like one cut pair. So a pair is named only if each of
its hosts is known to reach another host, or has no connections to others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from zmon.detectors.network.host_links import Pair


def cut_hosts(cut: Collection[Pair], idle: Collection[Pair], reached: Collection[Pair]) -> tuple[str, ...]:
    """Return the hosts to name; none if the cut pairs do not point at some of the hosts.

    `cut` has the pairs between which nothing passes, `idle` the other pairs with connections, and `reached` the pairs
    between which something is known to pass.
    """
    apart = _apart(cut, idle)
    common = frozenset.intersection(*cut)
    if len(cut) == 1:
        other_peers = [host for host in common if any(host in each for each in idle)]
        is_proven = all(any(host in each for each in reached) for host in other_peers)
        return tuple(sorted(common)) if is_proven else ()
    if common and not apart - common:
        return () if any(common & each for each in reached) else tuple(common)
    return tuple(sorted(apart)) if not common and all(each & apart for each in cut) else ()


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
