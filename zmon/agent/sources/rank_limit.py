"""The limit on the boxes that the agent has open: every tenant has a share, and living ranks come before dead ones.

A tenant is a user of the node, or a pod with all its users.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from zmon.agent.sources.box_listing import ListedBox
from zmon.agent.sources.rank_box import RankBox

MAX_RANKS = 512  # ranks that one agent watches; a node has 8 to 16 GPUs, and a rank has up to 66 series
MAX_DEAD = 2048  # dead ranks, with closed files; a job that crashes and restarts leaves a thousand in 15 minutes


def shares(wanted: Mapping[str, int], total: int) -> dict[str, int]:
    """Return how many boxes of each tenant may be open, given how many each tenant has, and the total that may be open.

    A tenant with fewer boxes than an equal share may have all of them open; the others share the rest equally.
    """
    places: dict[str, int] = {}
    for position, (number, tenant) in enumerate(sorted((number, tenant) for tenant, number in wanted.items())):
        places[tenant] = min(number, total // (len(wanted) - position))
        total -= places[tenant]
    return places


class RankLimit:
    """The limit. A scan calls `begin`, then `admits` and `add` for each new box, then `end`."""

    def __init__(self) -> None:
        self.lines: tuple[str, ...] = ()  # a line for each tenant whose boxes are not all open
        self._closed: dict[str, int] = {}  # boxes of dead ranks that were closed for others: inode by path
        self._allowed: dict[str, int] = {}  # how many living ranks each tenant may have
        self._living: Counter[str] = Counter()  # how many living ranks each tenant has

    def begin(self, listed: Mapping[str, ListedBox], opened: Mapping[str, RankBox]) -> list[str]:
        """Return the paths of open boxes to close, because their tenants have more than their share open."""
        self._closed = {
            path: inode for path, inode in self._closed.items() if path in listed and listed[path].inode == inode
        }
        new = Counter(box.tenant for path, box in listed.items() if path not in opened and path not in self._closed)
        return [*self._living_surplus(opened, new), *self._dead_surplus(opened, listed)]

    def _living_surplus(self, opened: Mapping[str, RankBox], new: Counter[str]) -> list[str]:
        """Share the places of living ranks, and return the paths of those that have none.

        `new`: how many boxes each tenant has that are not open.
        """
        living: defaultdict[str, list[str]] = defaultdict(list)  # paths by tenant
        for path, box in opened.items():
            if box.alive:
                living[box.tenant].append(path)
        self._allowed = shares({tenant: len(living[tenant]) + new[tenant] for tenant in {*living, *new}}, MAX_RANKS)
        self._living = Counter({tenant: min(len(paths), self._allowed[tenant]) for tenant, paths in living.items()})
        return [path for tenant, paths in living.items() for path in sorted(paths)[self._allowed[tenant] :]]

    def _dead_surplus(self, opened: Mapping[str, RankBox], listed: Mapping[str, ListedBox]) -> list[str]:
        """Share the places of dead ranks, and return the paths of those that have none: they died before the others."""
        dead: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)  # seconds since the death, and path
        for path, box in opened.items():
            if not box.alive:
                dead[box.tenant].append((box.gone_seconds or 0.0, path))
        share = MAX_DEAD // max(1, len(dead))
        surplus = [path for ranks in dead.values() for _, path in sorted(ranks)[share:]]
        self._closed |= {path: opened[path].inode for path in surplus if path in listed}
        # If the share of a tenant has room again, its boxes are opened again, and deleted in time.
        self._closed = {path: inode for path, inode in self._closed.items() if len(dead[listed[path].tenant]) >= share}
        return surplus

    def admits(self, path: str, tenant: str) -> bool:
        """Return True if a new box may be opened."""
        return path not in self._closed and self._living[tenant] < self._allowed.get(tenant, 0)

    def add(self, box: RankBox) -> None:
        """Count a new box. Boxes of dead ranks do not count in the limit of living ranks."""
        self._living[box.tenant] += box.alive

    def end(
        self, listed: Mapping[str, ListedBox], opened: Mapping[str, RankBox], damaged: Mapping[str, object]
    ) -> None:
        """Note how many boxes of each tenant are not open."""
        left_out = Counter(box.tenant for path, box in listed.items() if path not in opened and path not in damaged)
        self.lines = tuple(
            f"{number} boxes of {tenant}: an agent watches at most {MAX_RANKS} ranks of a node, with an equal share "
            "for each user or pod: run fewer ranks there"
            for tenant, number in sorted(left_out.items())
        )
