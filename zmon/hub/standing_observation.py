"""Observations of a rank that stands still, such as its stack: they are valid until the rank goes on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from zmon.schema.rank import RankState

T = TypeVar("T")


def place(state: RankState) -> tuple[object, ...]:
    """Return the point that a rank has reached: its steps, its phase, and its collectives within the step.

    The number of steps does not suffice: a rank that was late may go on to the next collective of the same step.
    """
    in_flight = state.in_flight
    collective = None if in_flight is None else (in_flight.op, in_flight.group, in_flight.sequence)
    return state.steps, state.activity, state.phase, state.sequences, collective


@dataclass(frozen=True, slots=True)
class StandingObservation(Generic[T]):
    """An observation of a rank that stands still."""

    value: T
    place: tuple[object, ...]  # where the rank stood

    @classmethod
    def of(cls, state: RankState, value: T) -> StandingObservation[T]:
        """Return an observation of a rank in this state."""
        return cls(value, place(state))

    def is_valid(self, state: RankState) -> bool:
        """Return True if the rank has not gone on since the observation."""
        return self.place == place(state)


def valid_values(observations: Mapping[int, StandingObservation[T]], ranks: Iterable[RankState]) -> dict[int, T]:
    """Return the observed values, by rank, of the ranks that have not gone on since the observation."""
    if not observations:
        return {}
    pairs = ((state, observations.get(state.rank)) for state in ranks)
    return {state.rank: latest.value for state, latest in pairs if latest is not None and latest.is_valid(state)}
