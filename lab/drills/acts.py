"""Judge what zmon did in a play: an act is wrong unless the truth blames its rank, or its job. Pure.

Nobody is to blame if the owner ended the job, or if a fault heals by itself: every act is wrong then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.schema.act import ACTED, AGENT_ACTS, ENFORCE, KILL_CULPRIT, UNANSWERED, Intent

CLOCK_SECONDS = 0.2  # an act or a finding may appear to be this much older than its fault


@dataclass(frozen=True)
class Blame:
    """A fault that the owner of the job did not cause. `ranks` may be killed for it, and its job may be ended."""

    time: float
    ranks: frozenset[int]
    heals: bool = False  # by itself, so nothing may be done


def is_act(intent: Intent) -> bool:
    """Return True if an agent was asked to act and did not refuse. An agent that did not answer may have acted."""
    return intent.mode == ENFORCE and intent.act in AGENT_ACTS and intent.result in (ACTED, UNANSWERED)


def wrong_acts(acts: Sequence[Intent], blames: Sequence[Blame]) -> tuple[str, ...]:
    """Return a line for each act that no fault before it explains."""
    return tuple(line for act in acts if (line := _wrong(act, blames)))


def _wrong(act: Intent, blames: Sequence[Blame]) -> str | None:
    """Return a line about a wrong act with the reason, or None if the act is right."""
    before = [blame for blame in blames if blame.time <= act.time + CLOCK_SECONDS]
    lasting = [blame for blame in before if not blame.heals]
    what = f"{act.act} of rank {', '.join(map(str, act.ranks)) or 'none'} for {act.cause}"
    if not before:
        return f"{what}: nobody is to blame"
    if not lasting:
        return f"{what}: it heals by itself"
    innocent = set(act.ranks).difference(*(blame.ranks for blame in lasting))
    if act.act == KILL_CULPRIT and (innocent or not act.ranks):
        return f"{what}: not to blame"
    return None
