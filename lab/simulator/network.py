"""The links between simulated hosts, and their addresses. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

from lab.simulator.composition import Shape


@dataclass
class Network:
    """The hosts and pairs of hosts that are cut off, with the time of the cut."""

    shape: Shape
    cut: dict[int, float] = field(default_factory=dict)
    pairs: dict[frozenset[int], float] = field(default_factory=dict)
    lost: dict[int, float] = field(default_factory=dict)  # hosts whose agent cannot be reached either

    def are_connected(self, hosts: Iterable[int]) -> bool:
        """Return True if all of these hosts reach each other."""
        if not self.cut and not self.pairs:
            return True
        return all(self.cut_since(*pair) is None for pair in combinations(sorted(set(hosts)), 2))

    def cut_since(self, host: int, other: int) -> float | None:
        """Return since when two hosts do not reach each other; None if they do."""
        times = [self.cut.get(host), self.cut.get(other), self.pairs.get(frozenset((host, other)))]
        return min((time for time in times if time is not None), default=None)


def address(host: int) -> str:
    """Return the address of a host."""
    return f"10.0.0.{host + 1}"
