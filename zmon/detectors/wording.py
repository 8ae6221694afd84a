"""Write lists of ranks and tables as parts of a sentence; long lists are cut, as they may have a thousand entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from itertools import accumulate

from zmon.format import listed
from zmon.schema.rank import RankState

_MAX_NUMBERS = 8
_MAX_RANKS = 4
_MAX_LETTERS = 60  # letters of table names, which the job chooses


def ranks_on(ranks: Sequence[RankState]) -> str:
    """Return the first few ranks with their hosts, and the number of the others."""
    return listed([f"rank {r.rank} on {r.host}" for r in ranks], _MAX_RANKS)


def ranks_text(ranks: Sequence[int], num_ranks: int | None = None) -> str:
    """Return the first few ranks by their numbers, with the noun: `rank 3`, `ranks 3, 5`.

    `num_ranks` is the number of all ranks, if `ranks` has only the first ones.
    """
    return f"rank{'s' if (num_ranks or len(ranks)) != 1 else ''} {rank_numbers(ranks, num_ranks)}"


def rank_numbers(ranks: Iterable[int], num_ranks: int | None = None) -> str:
    """Return the first few rank numbers, and the number of the others; `num_ranks` as for `ranks_text`."""
    return listed([str(rank) for rank in ranks], _MAX_NUMBERS, num_ranks)


def verb(ranks: Sized, singular: str, plural: str) -> str:
    """Return the form of a verb, or of another word, that agrees with the number of ranks."""
    return singular if len(ranks) == 1 else plural


def tables(names: Sequence[str], num_tables: int) -> str:
    """Return the names of the first few tables, at least one, and the number of the others.

    `num_tables` is the number of all tables; `names` may hold only the first ones.
    """
    lengths = accumulate(len(name) + 2 for name in names)
    num_shown = min(max(sum(length <= _MAX_LETTERS for length in lengths), 1), _MAX_NUMBERS)
    return listed(names, num_shown, max(num_tables, len(names)))
