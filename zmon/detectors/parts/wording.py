"""Who is it, in few words? Lists that may have a thousand entries, as they stand in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from zmon.schema.rank import RankState

_NUMBERS = 8
_PLACES = 4
_LETTERS = 60  # of names that others chose


def ranks_on(ranks: Sequence[RankState]) -> str:
    """Ranks with their hosts, the first few and how many more there are."""
    return _few([f"rank {r.rank} on {r.host}" for r in ranks], _PLACES)


def numbers(ranks: Iterable[int]) -> str:
    """Ranks by number, the first few and how many more there are."""
    return _few([str(rank) for rank in ranks], _NUMBERS)


def tables(names: Sequence[str], number: int) -> str:
    """The first of so many tables by name, one at least, and how many more there are."""
    lengths = accumulate(len(name) + 2 for name in names)
    shown = min(max(sum(length <= _LETTERS for length in lengths), 1), _NUMBERS)
    return _few(names, shown, max(number, len(names)))


def _few(named: Sequence[str], most: int, number: int | None = None) -> str:
    left_out = (len(named) if number is None else number) - most
    more = f" and {left_out} more" if left_out > 0 else ""
    return ", ".join(named[:most]) + more
