"""Judge ranks by the ranks that train, if their own lease says little about a stall. Pure; a few passes over the ranks.

1. A rank that never trains, such as a generator or an evaluator beside the trainers, stays in the activity in which it
   started. The lease of that activity would hide a hang of the trainers until it ends. Afterwards the rank would be
   overdue for ever.
2. A rank that has evaluated or saved waits in a collective for ranks that train. It has not trained again, so it still
   has the long lease of its evaluation or save, which would hide a hang of those ranks.
3. One rank evaluates or saves for all, and the others wait for it within their steps. The waits make their steps, and
   so their leases, too long. The rank that saves counts this time apart from its steps, so its lease fits all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zmon.detectors.hangs.awaited_ranks import awaited_ranks
from zmon.detectors.hangs.limits import LOOK_RATIO, has_learned
from zmon.job.lease import Leases
from zmon.job.restarts import seconds_since_start
from zmon.job.sequences import furthest, is_behind
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

# A rank without a step never trains if the others have taken this many. A rank that is only late for its first step
# would hold up a synchronous job much earlier.
_MANY_STEPS = 20
# Such a rank must have existed for this share of the time since the initialization of the others ended. A rank that
# replaces a failed one joins ranks that have trained for long, and initializes first; it will train.
_PRESENT_RATIO = 0.9
# A rank that has entered at least this share of the collectives of a group takes part in every step.
_PART_RATIO = 0.5
# The lease of one rank may count for all ranks if it has taken at least this share of the most steps. With fewer steps,
# its p99 has fewer pauses in it.
_STEPS_RATIO = 0.5
# The lease that counts for all is at least this value × the mean step of each rank. The lease of one rank is the same
# value × its p99. Ranks that do not step together, as in local SGD, differ in their mean step. Waits for a rank that
# saves are too few to change the mean.
_MEAN_STEPS = Leases.train_multiple


def as_judged(snapshot: Snapshot) -> Snapshot:
    """Return the job as its silence is judged: ranks that never train, or wait for those that do, follow them.

    A rank that never trains counts as a trainer while it waits in a collective, or while a trainer waits for it. If
    others wait for its evaluation or save, that has its own lease, counted from its last collective. If nobody waits
    for the rank, it is left out: its work is no sign of life of the others, and it is not at fault.
    """
    if not all(r.activity == "train" for r in snapshot.ranks):
        snapshot = _with_those_that_never_train(_with_waiting_trainers(snapshot))
    return _with_one_lease(snapshot)


def _with_those_that_never_train(snapshot: Snapshot) -> Snapshot:
    """Return the job in which ranks that never train count as ranks that train, or are left out."""
    moving = snapshot.unfinished_ranks
    trainers = [r for r in moving if r.steps >= _MANY_STEPS]
    trained_seconds = max((seconds_since_start(r) - r.between_seconds.get("init", 0.0) for r in trainers), default=0.0)
    if trained_seconds <= 0:
        return snapshot
    least_seconds = _PRESENT_RATIO * trained_seconds
    without_training = (r for r in moving if r.steps == 0 and r.activity != "train")
    never_trained = {r.rank: r for r in without_training if seconds_since_start(r) >= least_seconds}
    if not never_trained:
        return snapshot
    last_to_step = min(trainers, key=lambda r: (r.activity != "train", r.step_seconds))
    awaited = _awaited(trainers, list(never_trained.values()))
    usual = furthest(counted for r in trainers for counted in r.sequences.items())
    ranks = []
    for state in snapshot.ranks:
        if state.rank not in never_trained:
            ranks.append(state)
        elif state.in_flight or (state.rank in awaited and state.activity == "init" and _takes_part(state, usual)):
            ranks.append(_as_trainer(state, last_to_step))
        elif state.rank in awaited:
            ranks.append(state if state.activity == "init" else _since_its_last_change(state))
        # Nobody waits for any other rank that never trains, so it is left out.
    return replace(snapshot, ranks=tuple(ranks))


def _with_one_lease(snapshot: Snapshot) -> Snapshot:
    """Return the job in which all ranks that train have the shortest of their leases, if it may be exceeded soon."""
    training = [r for r in snapshot.ranks if r.alive and has_learned(r) and r.lease_seconds is not None]
    least_steps = _STEPS_RATIO * max((r.steps for r in training), default=0)
    shortest = min((r.lease_seconds or 0.0 for r in training if r.steps >= least_steps), default=0.0)
    if min((r.step_seconds for r in training), default=0.0) < LOOK_RATIO * shortest:
        return snapshot  # a rank has just stepped, as in nearly every pass over thousands of ranks
    lease = max([shortest, *(_MEAN_STEPS * r.step_seconds_total / r.steps for r in training)])
    longer = {r.rank for r in training if (r.lease_seconds or 0.0) > lease}
    if not longer:
        return snapshot
    ranks = tuple(_with_lease(r, lease) if r.rank in longer else r for r in snapshot.ranks)
    return replace(snapshot, ranks=ranks)


def _with_lease(state: RankState, lease: float) -> RankState:
    """Return a rank that trains with this lease."""
    overdue = max(0.0, state.step_seconds - state.unobserved_seconds - lease)
    return replace(state, lease_seconds=lease, overdue_seconds=overdue)


def _with_waiting_trainers(snapshot: Snapshot) -> Snapshot:
    """Return the job in which ranks that wait, after an evaluation or a save, count as ranks that train.

    The job is unchanged if a rank in no collective evaluates or saves as well: the others may wait for that rank.
    """
    moving = snapshot.unfinished_ranks
    waiting = {r.rank for r in moving if r.in_flight and r.steps > 0 and r.activity in ("eval", "checkpoint")}
    outside = [r for r in moving if not r.in_flight]
    if not waiting or not outside or any(r.activity != "train" for r in outside):
        return snapshot
    last_to_step = min(outside, key=lambda r: r.step_seconds)
    ranks = tuple(_as_trainer(r, last_to_step) if r.rank in waiting else r for r in snapshot.ranks)
    return replace(snapshot, ranks=ranks)


def _awaited(trainers: Sequence[RankState], others: Sequence[RankState]) -> set[int]:
    """Return those of `others` in no collective for which ranks that train wait, maybe through further ranks."""
    waiting = [r for r in trainers if r.in_flight]
    inside = [r for r in others if r.in_flight]
    while True:  # a rank for which one of these waits may itself wait for a further rank
        due = furthest((r.in_flight.group, r.in_flight.sequence) for r in waiting if r.in_flight)
        awaited = {r.rank for r in inside if is_behind(r, due)}
        if not awaited:
            break
        waiting += [r for r in inside if r.rank in awaited]
        inside = [r for r in inside if r.rank not in awaited]
    outside = [r for r in others if not r.in_flight]
    # On a GPU a rank issues a collective and goes on, so there it may wait for one that it has issued.
    issued = furthest(counted for r in trainers if r.device != "cpu" for counted in r.sequences.items())
    behind = {r.rank for r in outside if is_behind(r, due) or is_behind(r, issued)}
    outside_trainers = [r for r in trainers if not r.in_flight]
    by_operation = awaited_ranks([*waiting, *outside_trainers, *outside])  # also in operations without a count
    return behind | {r.rank for r in outside}.intersection(r.rank for r in by_operation)


def _takes_part(state: RankState, usual: Mapping[str, int]) -> bool:
    """Return True if the rank has entered its share of the collectives of a group that it has with the trainers."""
    return any(0 < _PART_RATIO * usual.get(group, 0) <= count for group, count in state.sequences.items())


def _as_trainer(state: RankState, trainer: RankState) -> RankState:
    """Return the rank with the steps and the lease of one that trains, for as long as it waits in a collective."""
    lease = trainer.lease_seconds
    seconds = min(trainer.step_seconds, state.in_flight.seconds) if state.in_flight else trainer.step_seconds
    silence = seconds - trainer.unobserved_seconds
    return replace(
        state,
        activity="train",
        step=trainer.step,
        steps=trainer.steps,
        step_seconds=seconds,
        lease_seconds=lease,
        overdue_seconds=max(0.0, silence - lease) if lease is not None else 0.0,
        unobserved_seconds=trainer.unobserved_seconds,
    )


def _since_its_last_change(state: RankState) -> RankState:
    """Return the rank as if its activity had begun with its last change of state."""
    seconds = min(state.activity_seconds, state.state_seconds)
    silence = seconds - state.unobserved_seconds
    lease = state.lease_seconds
    overdue = max(0.0, silence - lease) if lease is not None else 0.0
    return replace(state, activity_seconds=seconds, overdue_seconds=overdue)
