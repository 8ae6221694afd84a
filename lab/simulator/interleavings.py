"""Every order in which three ranks can enter three collectives, with every fault at every position. Pure.

A rank enters its collectives in the order of its program, and no rank enters the next collective before the present one
is done. One rank is stopped, killed, leaves a collective out or brings another size, before, in or after each
collective. The states that the ranks are left in are what a stall detector sees once nothing moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal

RANKS, COLLECTIVES = 3, 3
Damage = Literal["stop", "kill", "raise", "block", "skip", "size"]
DAMAGES: tuple[Damage, ...] = ("stop", "kill", "raise", "block", "skip", "size")


@dataclass(frozen=True)
class Position:
    """The state in which a rank is left."""

    entered: int  # collectives that it has entered
    inside: int | None  # the index in the program of the collective that it waits in; None: it is in none
    larger: bool = False  # it brought another size
    order: int = 0  # the turn at which it came to this state


@dataclass(frozen=True)
class Interleaving:
    """One order, one fault, and the state in which every rank is left."""

    orders: tuple[tuple[int, ...], ...]  # for each collective, the ranks in the order in which they enter it
    damage: Damage
    rank: int
    struck: int  # the index of the collective at which the fault strikes; COLLECTIVES: after the last one
    within: bool  # the fault strikes while the rank is in the collective, not before it
    positions: tuple[Position, ...]


def interleavings(ops: Sequence[str]) -> Iterator[Interleaving]:
    """Yield every interleaving of a program with these collectives."""
    for orders in product(permutations(range(RANKS)), repeat=COLLECTIVES):
        for damage, rank, struck in product(DAMAGES, range(RANKS), range(COLLECTIVES + 1)):
            for within in (False, True):
                if _is_possible(orders, damage, rank, struck, within):
                    positions = _positions(orders, damage, rank, struck, within, ops)
                    if positions is not None:
                        yield Interleaving(orders, damage, rank, struck, within, positions)


def _is_possible(orders: Sequence[Sequence[int]], damage: Damage, rank: int, struck: int, within: bool) -> bool:
    if damage in ("skip", "size"):
        return not within and struck < COLLECTIVES
    if damage in ("raise", "block"):
        return not within  # a rank inside a collective executes nothing of its own
    return not within or (struck < COLLECTIVES and orders[struck][-1] != rank)  # the last to enter does not wait


def _positions(
    orders: Sequence[Sequence[int]], damage: Damage, rank: int, struck: int, within: bool, ops: Sequence[str]
) -> tuple[Position, ...] | None:
    """Return the position in which every rank is left; None if no rank waits for anything."""
    if struck == COLLECTIVES:  # the next step begins like this one: the others wait in its first collective
        return tuple(
            Position(COLLECTIVES, None) if number == rank else Position(COLLECTIVES + 1, 0, order=turn)
            for number, turn in _turns(orders[0])
        )
    left: list[Position] = []
    for number, turn in _turns(orders[struck]):
        if number != rank:
            left.append(Position(struck + 1, struck, order=turn))
        elif damage == "skip":
            following = (struck + 1) % COLLECTIVES
            if ops[following] == ops[struck]:
                return None  # the next collective pairs with the one that was left out, and nothing shows the fault
            left.append(Position(struck + 1, following, order=turn))
        elif damage == "size":
            left.append(Position(struck + 1, struck, larger=True, order=turn))
        else:
            left.append(Position(struck + within, struck if within else None, order=turn))
    return tuple(left)


def _turns(order: Sequence[int]) -> list[tuple[int, int]]:
    """Return each rank with its turn in the order, rank 0 first."""
    return [(rank, order.index(rank)) for rank in range(RANKS)]
