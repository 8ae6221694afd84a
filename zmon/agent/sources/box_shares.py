"""Divide the places of a node among the users whose ranks it has, so that no user can take those of another. Pure."""

from __future__ import annotations

from collections.abc import Mapping

MAX_RANKS = 512  # ranks that one agent watches; a node has 8 to 16 GPUs, and a rank has up to 64 series


def shares(wanted: Mapping[int, int], total: int = MAX_RANKS) -> dict[int, int]:
    """Return the number of places of each user, given how many each one wants.

    A user who wants less than an equal share gets all; the others divide what is left.
    """
    places: dict[int, int] = {}
    for position, (owner, number) in enumerate(sorted(wanted.items(), key=lambda item: (item[1], item[0]))):
        places[owner] = min(number, total // (len(wanted) - position))
        total -= places[owner]
    return places
