"""Find the rank that left cleanly (exit code 0) while the others went on, and so made them fail or wait.

Uneven inputs do this: one rank has fewer batches than the others. A rank that finishes first while the others finish
too is no fault, nor is a rank that leaves early and is not missed.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.endings.ends import Ends, with_first_words
from zmon.detectors.endings.own_death import Death, began_seconds, death
from zmon.detectors.wording import ranks_on
from zmon.format import counted
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

ADVICE = (
    "The ranks did not have the same number of batches. Give every rank the same number: `drop_last=True` and a "
    "`DistributedSampler` in the loader, and compare `len(loader)` on all ranks before the loop. Or let ranks that are "
    "done take part in the collectives of the others: `with torch.distributed.algorithms.join.Join([model]):`."
)


def uneven_end(ends: Ends) -> Finding | None:
    """Return a finding about ranks that left while others went on; None if no rank failed or waits because of that."""
    left = [*ends.of(Death.FINISHED), *(r for r in ends.living if r.activity == "done")]  # its process may still end
    broken = ends.of(Death.VICTIM, Death.NOT_MET)
    caused = [leaver for leaver in left if _went_before(ends, leaver, broken)] if broken else []
    if not caused:
        return None
    return ends.finding(
        cause="uneven_end",
        summary=f"{left_text(caused)}; {len(broken)} of them failed of the broken connections at step {broken[0].step} "
        f"during {broken[0].activity}",
        detail=ADVICE
        if _ran_exit_handlers(caused)
        else f"Look for `os._exit` or an `exec` in the code of the job. {ADVICE}",
        confidence=0.9,
        culprits=odd_ranks(caused, ends.snapshot.ranks),
        evidence=with_first_words(Evidence(), caused[0]),
    )


def missed_leavers(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that have finished although others are in a collective that they never entered."""
    waiting = [r for r in ranks if r.alive and r.activity != "done"]
    left = [r for r in ranks if (r.alive and r.activity == "done") or (not r.alive and death(r) is Death.FINISHED)]
    return [leaver for leaver in left if any(waits_for(r, leaver) for r in waiting)]


def odd_ranks(left: Sequence[RankState], ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that differ from the majority: those that left, or those that went on."""
    rest = [r for r in ranks if r not in left]
    return list(left) if len(left) <= len(rest) else rest


def left_text(left: Sequence[RankState]) -> str:
    """Return the beginning of a summary: who left, and after how many steps."""
    count = max(r.steps for r in left)
    how = (
        "left cleanly"
        if _ran_exit_handlers(left)
        else "left with exit code 0 and without Python's exit handlers (os._exit)"
    )
    return f"{ranks_on(left)} {how} after {counted(count, 'step')} while the others went on"


def _ran_exit_handlers(left: Sequence[RankState]) -> bool:
    """Return True if Python ended these ranks in order, so that they left last words; also if that is not known."""
    return all(r.last_words is not None or r.exit_status is None for r in left)


def waits_for(state: RankState, leaver: RankState) -> bool:
    """Return True if the rank is in a collective that the other, a member of the same group, has never entered.

    On a GPU a rank issues a collective and goes on. Once nothing moves, it waits for those that it has issued.
    """
    inside = state.in_flight
    if inside is not None:
        return 0 < leaver.sequences.get(inside.group, inside.sequence) < inside.sequence
    issued = state.sequences if state.device != "cpu" else {}
    return any(0 < leaver.sequences.get(group, count) < count for group, count in issued.items())


def _went_before(ends: Ends, leaver: RankState, others: list[RankState]) -> bool:
    """Return True if the rank left before the others failed, and they have made no step since.

    The others may need seconds to fail: they raise when the process of the leaver has ended.
    """
    left, limits = began_seconds(leaver), ends.limits
    if leaver.alive and leaver.last_words is None:
        left = leaver.activity_seconds
    if left + limits.together_seconds < max(began_seconds(r) for r in others):
        return False
    return all(r.step_seconds >= left - limits.left_seconds for r in others)
