"""Find the ranks past their lease, as the hub judges them: in training the ranks share one lease. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import median

from zmon.job.lease import Leases
from zmon.schema.rank import RankState

_LEARNED_STEPS = Leases.learned_after_steps


def overdue_ranks(alive: Sequence[RankState]) -> list[RankState]:
    """Return the ranks past their lease; a rank has a lease of its own in training once it has learned one.

    In training all ranks take the same steps, so the median lease counts for all of them. The longest lease of many
    ranks would be that of the rank with the most irregular steps. It counts for ranks without steps as well, such as
    the workers of a parameter server, which have no optimizer.
    """
    training = [r for r in alive if r.activity == "train" and r.steps >= _LEARNED_STEPS]
    leases = [r.lease_seconds for r in training if r.lease_seconds is not None]
    shared = median(leases) if leases else inf
    learning = [r for r in alive if r.activity == "train" and r.steps < _LEARNED_STEPS]
    usual = median(map(_num_collectives, training)) if training and learning else 0

    def is_overdue(state: RankState) -> bool:
        if state.overdue_seconds > 0 or state.activity != "train":
            return state.overdue_seconds > 0
        if state.steps >= _LEARNED_STEPS:
            return state.step_seconds - state.unobserved_seconds > shared
        return state.state_seconds - state.unobserved_seconds > shared and _takes_part(state, usual)

    return [r for r in alive if is_overdue(r)]


def _takes_part(state: RankState, usual: float) -> bool:
    """Return True if a rank has entered at least half as many collectives as usual for the ranks that train."""
    return 0 < usual <= 2 * _num_collectives(state)


def _num_collectives(state: RankState) -> int:
    """Return the number of collectives that the rank has entered in its busiest group."""
    return max(state.sequences.values(), default=0)
