"""Find the ranks that left while others went on, and the ranks that wait for them; for endings and hangs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.wording import ranks_on
from zmon.format import counted
from zmon.job.rank_end import Way, left_with_launchers, way_of
from zmon.schema.rank import EXECUTED, RankState

ADVICE = (
    "Either the ranks did not have the same number of batches, or one left the loop or skipped a batch by its own "
    "decision, such as early stopping or a check for NaN. Give every rank the same number of batches "
    "(`drop_last=True` and a `DistributedSampler`; compare `len(loader)` on all ranks), or use `with "
    "torch.distributed.algorithms.join.Join([model]):`. Let all ranks decide alike: `all_reduce` the decision first."
)


def missed_leavers(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that have finished although others are in a collective that they never entered."""
    waiting = [r for r in ranks if r.alive and r.activity != "done"]
    left = living_leavers(ranks) + [r for r in ranks if not r.alive and way_of(r) is Way.FINISHED]
    return [leaver for leaver in left if any(waits_for(r, leaver) for r in waiting)]


def living_leavers(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the living ranks that left their loops by themselves; their processes may still end."""
    ended_by_owner = {r.rank for r in left_with_launchers(ranks)}
    return [r for r in ranks if r.alive and r.activity == "done" and r.rank not in ended_by_owner]


def odd_ranks(left: Sequence[RankState], ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that differ from the majority: those that left, or those that went on."""
    rest = [r for r in ranks if r not in left]
    return list(left) if len(left) <= len(rest) else rest


def left_text(left: Sequence[RankState]) -> str:
    """Return the beginning of a summary: who left, and after how many steps."""
    count = max(r.steps for r in left)
    how = "left with exit code 0 and without Python's exit handlers (os._exit)"
    if ran_exit_handlers(left):
        how = "left cleanly"
    elif all(r.exit_status == EXECUTED for r in left):
        how = f"left by an {EXECUTED}"
    return f"{ranks_on(left)} {how} after {counted(count, 'step')} while the others went on"


def ran_exit_handlers(left: Sequence[RankState]) -> bool:
    """Return True if Python ended these ranks in order, so that they left last words; also if that is not known."""
    return all(r.last_words is not None or r.exit_status is None for r in left)


def waits_for(state: RankState, leaver: RankState) -> bool:
    """Return True if the rank is in a collective that the other, a member of the same group, has never entered.

    On a GPU a rank issues a collective and goes on. Once nothing moves, it waits for the collectives that it issued.
    """
    collective = state.in_flight
    if collective is not None:
        return 0 < leaver.sequences.get(collective.group, collective.sequence) < collective.sequence
    issued = state.sequences if state.device != "cpu" else {}
    return any(0 < leaver.sequences.get(group, count) < count for group, count in issued.items())
