"""Find out which hosts reach each other, and infer from the pairs that do not where the network is cut. Pure.

- If one pair of hosts is cut, both hosts are culprits.
- If all pairs of one host are cut, that host is the culprit.
- If all pairs between a few hosts and the others are cut, the few hosts are the culprits.
- In all other cases, such as two halves of a cluster, no host is.

A pair without traffic may be cut as well. In a ring, each host sends only to its neighbours, and in a small collective
perhaps only one rank sends. Then a host that reaches nobody looks like one cut pair. So a pair is a culprit only if
each of its hosts is known to reach another host, or has no connections to others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from zmon.detectors.network.host_links import Pair, by_peer, host_by_address, owners
from zmon.schema.job_snapshot import Snapshot


def cut_hosts(cut: Collection[Pair], idle: Collection[Pair], reached: Collection[Pair]) -> tuple[str, ...]:
    """Return the hosts that are at fault; none if the cut pairs do not point at some of the hosts.

    `cut` has the pairs between which nothing passes, `idle` the other pairs with connections, and `reached` the pairs
    between which something is known to pass.
    """
    in_all_pairs = frozenset.intersection(*cut)
    if len(cut) == 1:
        with_other_peers = [host for host in in_all_pairs if any(host in pair for pair in idle)]
        is_proven = all(any(host in pair for pair in reached) for host in with_other_peers)
        return tuple(sorted(in_all_pairs)) if is_proven else ()
    apart = _hosts_apart(cut, idle)
    if in_all_pairs and apart <= in_all_pairs:
        return () if any(in_all_pairs & pair for pair in reached) else tuple(in_all_pairs)
    is_apart_in_each = not in_all_pairs and all(pair & apart for pair in cut)
    return tuple(sorted(apart)) if is_apart_in_each else ()


def reached_pairs(snapshot: Snapshot) -> tuple[set[Pair], set[Pair]]:
    """Return the pairs of hosts that answered each other just now, and the pairs that did not.

    A host that answers nobody may refuse all such requests, so its silence proves nothing.
    """
    host_of = host_by_address(snapshot.hardware)
    questions = [
        _Question(window.host, host_of[address], is_answered)
        for window in snapshot.hardware
        for address, is_answered in ((window.now.tcp.answers if window.now.tcp else None) or {}).items()
        if address in host_of and host_of[address] != window.host
    ]
    answering = {question.peer for question in questions if question.is_answered}
    reached = {question.pair for question in questions if question.is_answered}
    silent = {question.pair for question in questions if not question.is_answered and question.peer in answering}
    return reached, silent - reached


class _Question(NamedTuple):
    """A host asked another host for an answer."""

    host: str
    peer: str
    is_answered: bool

    @property
    def pair(self) -> Pair:
        """The two hosts."""
        return frozenset((self.host, self.peer))


def answering_hosts(snapshot: Snapshot) -> set[str]:
    """Return the hosts that answered another host or refused the hub just now, also those whose agents are silent."""
    up = {agent.host for agent in snapshot.agents if agent.host is not None and agent.host_is_up}
    host_of = owners(snapshot.addresses.items())
    samples = [window.now.tcp for window in snapshot.hardware if window.now.tcp is not None]
    answered = {address for tcp in samples for address, is_answered in (tcp.answers or {}).items() if is_answered}
    return up | {host_of[address] for address in answered if address in host_of}


def pairs_with_lost_data(snapshot: Snapshot) -> set[Pair]:
    """Return the pairs of hosts whose data timed out once more in the last few seconds, although the peer answered."""
    host_of = host_by_address(snapshot.hardware)
    pairs: set[Pair] = set()
    for window in snapshot.hardware:
        before = by_peer(window.recent, snapshot.job_id)
        answers = (window.recent.answers if window.recent else None) or {}
        for key, now in by_peer(window.now.tcp, snapshot.job_id).items():
            earlier = before.get(key)
            has_timed_out = earlier is not None and (earlier.num_timeouts or 0) < (now.num_timeouts or 0)
            if has_timed_out and answers.get(now.peer) and now.peer in host_of:
                pairs.add(frozenset((window.host, host_of[now.peer])))
    return pairs


def _hosts_apart(cut: Collection[Pair], idle: Collection[Pair]) -> frozenset[str]:
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
