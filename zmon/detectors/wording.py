"""Who is it, in few words? Lists that may have a thousand entries, as they stand in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zmon.records import RankState

_NUMBERS = 8
_PLACES = 4


def ranks_on(ranks: Sequence[RankState]) -> str:
    """Ranks with their hosts, the first few and how many more there are."""
    return _few([f"rank {r.rank} on {r.host}" for r in ranks], _PLACES)


def numbers(ranks: Iterable[int]) -> str:
    """Ranks by number, the first few and how many more there are."""
    return _few([str(rank) for rank in ranks], _NUMBERS)


def _few(named: Sequence[str], most: int) -> str:
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more
