"""Play many compositions in the simulator, and format their results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lab.drills.tally import Outcome
from lab.simulator.composition import compose
from lab.simulator.play import play
from lab.simulator.verdict import AS_EXPECTED, Play
from zmon.hub.acts import Policy


def play_many(
    seed: int,
    first: int,
    num_plays: int,
    on_play: Callable[[Play], None] = lambda play: None,
    policy: Policy | None = None,
) -> list[Play]:
    """Play `num_plays` compositions of a seed, from number `first` on, with acts by the policy.

    `on_play` receives every play.
    """
    plays: list[Play] = []
    with _quiet_log():
        for number in range(first, first + num_plays):
            plays.append(play(compose(seed, number), policy))
            on_play(plays[-1])
    return plays


def outcome(play: Play) -> Outcome:
    """Return what the tally counts."""
    return Outcome(play.first_fault, play.evidence, play.result, play.confidence, play.skipped)


def line(play: Play) -> str:
    """Return one play as a line of text; seed and number play it again."""
    published = ", ".join((*play.causes, *(f"rank {rank}" for rank in play.ranks))) or "nothing"
    culprits = ", ".join(f"rank {rank}" for rank in play.culprits) or "nobody"
    deviations = "; ".join((*play.wrong_acts, published))
    return f"{play.seed}:{play.number} {play.result}: {deviations}; true: {culprits}; {play.composition}"


def is_as_expected(play: Play) -> bool:
    """Return True if the result of a play is as expected, or if it was not played."""
    return play.result in AS_EXPECTED or play.skipped is not None


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Keep the hub's log of its findings off the terminal."""
    log = logging.getLogger("zmon.hub")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
