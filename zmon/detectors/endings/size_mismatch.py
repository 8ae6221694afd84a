"""Find the rank that made others die because its collective differs from theirs in size or operation.

gloo aborts a rank that receives more than it expects ("Received data size doesn't match expected size", pair.cc) within
milliseconds, and the other ranks die because of it. The rank at fault looks like a victim, or has gone on to its next
collective. The box of each rank, alive or dead, has its last two collectives. This module compares them:

- The sizes of an all-to-all may differ between ranks. They are compared only if the death of a rank shows that they
  matter. Then the rank whose size differs from the majority is the culprit.
- Kernels before 6.15 report no exit status, so a rank without last words may have been killed. Then sizes prove a
  mismatch only where they must be equal.
- NCCL compares nothing: the ranks wait until its watchdog aborts one of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zmon.detectors.collectives import SAME_SIZE_ON_GPUS, Contribution, Mismatch, even_ops, first_mismatch
from zmon.detectors.endings.job_end import JobEnd, with_last_words
from zmon.detectors.endings.memory import out_of_memory
from zmon.detectors.wording import ranks_on, ranks_text
from zmon.job.aborts import is_aborted_while_waiting
from zmon.job.facts import launcher_lead
from zmon.job.sequences import entered_counts
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.names import SAME_SIZE_OPS
from zmon.schema.rank import EnteredCollective, RankState

# gloo (pair.cc, alltoallv.cc) and torch itself (ProcessGroupWrapper.cpp, with TORCH_DISTRIBUTED_DEBUG=DETAIL).
_MISMATCH_ERROR = re.compile(
    r"data size doesn't match|enforce fail .*(LengthPerRank|nbytes)|mismatch between collectives"
    r"|split sizes do(es)?n'?t match",
    re.IGNORECASE,
)


def mismatch_finding(end: JobEnd) -> Finding | None:
    """Return a finding about ranks that a library aborted because their sizes or operations differ."""
    mismatch = _fatal_mismatch(end.snapshot.reported_ranks, end.ended, even_ops(end.snapshot.steps))
    if mismatch is None:
        return None
    if not mismatch.minority and end.culprits and out_of_memory(end.snapshot, end.culprits[0]):
        return None  # several ranks were killed
    return end.finding(
        cause="collective_mismatch" if mismatch.minority else "unknown",
        summary=f"ranks died because they disagree about collective {mismatch.sequence} of group {mismatch.group}: "
        f"{mismatch.differences} ({ranks_on(mismatch.minority) or 'nothing shows which rank is wrong'})",
        detail=_next_steps(mismatch),
        confidence=0.9 if mismatch.minority else 0.3,
        culprits=mismatch.minority,
        evidence=StallEvidence(group=mismatch.group, sequence=mismatch.sequence),
    )


def _next_steps(mismatch: Mismatch) -> str:
    """Return what to do about the rank that differs, or, if nothing shows which rank is wrong, about all of them."""
    what_sets_it = "a last, smaller batch, the rank's share of a table, its split sizes"
    if mismatch.minority:
        return (
            f"The size or the operation of {ranks_on(mismatch.minority)} differs from that of the other ranks, and the "
            f"library aborted the ranks that noticed. Find out what sets the size there: {what_sets_it}. A restart "
            "will end the same way."
        )
    return (
        f"Compare what sets the size on each of these ranks: {what_sets_it}. If the sizes may differ, they are not the "
        "reason: read the end of the job's log."
    )


def unreported_mismatch(end: JobEnd) -> Finding | None:
    """Return a finding about ranks that gloo aborted while a rank that no agent reports may be at fault."""
    aborted = [r for r in end.ended if _died_of_abort(r) and r.in_flight]
    suspects = [r for r in end.snapshot.unwatched if _is_behind(r, aborted)]
    if suspects:
        who, where = ranks_on(suspects), f"on {suspects[0].host}, and start the agent there again"
    else:
        aborted = _possibly_aborted_ranks(end.ended)
        if not (aborted and end.snapshot.missing):
            return None
        who = ranks_text(end.snapshot.missing, end.snapshot.num_missing)
        where = f"of {who}, and start an agent on that host"
    return end.finding(
        cause="unknown",
        summary=f"{ranks_on(aborted)} aborted in a collective at step {aborted[0].step}, and {who} may have entered it "
        "with another size or another operation: no agent reports this",
        detail=f"Read the end of the job's log {where}. Once it answers, it reports what its ranks entered. If that is "
        f"the same as elsewhere: read the log of rank {aborted[0].rank}.",
        confidence=0.3,
        evidence=with_last_words(StallEvidence(hosts=tuple(sorted({r.host for r in suspects}))), aborted[0]),
    )


def may_be_unreported(ranks: Sequence[RankState], ended: Sequence[RankState]) -> bool:
    """Return True if a mismatch may have ended ranks, and the report of the rank at fault is from before their end.

    The report of a living rank on another host may not show yet that it entered the collective with another size.
    """
    aborted = [r for r in ended if not r.alive and (_died_of_abort(r) or _ended_without_trace(r))]
    gone = {r.rank for r in ended}
    return any(_is_behind(r, aborted) for r in ranks if r.rank not in gone)


def _possibly_aborted_ranks(ended: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that gloo may have aborted; empty if they are fewer than two, or if all their launchers ended.

    One rank alone may have died of anything. If all launchers ended, somebody ended the job.
    """
    ranks = [r for r in ended if _ended_without_trace(r) or (_died_of_abort(r) and r.in_flight)]
    return ranks if len(ranks) > 1 and any(launcher_lead(r) is None for r in ranks) else []


def _fatal_mismatch(ranks: Sequence[RankState], ended: Sequence[RankState], even: Sequence[str]) -> Mismatch | None:
    """Return the first mismatch between ranks if one of the `ended` ranks died of a mismatch, else None.

    `even` has further operations whose size must be the same on every rank; see `even_ops`.
    """
    if any(map(is_aborted_while_waiting, ended)):  # NCCL's watchdog aborts a rank that waits for any reason
        return _proven_mismatch(ranks, (*SAME_SIZE_ON_GPUS, *even))
    fatal = [r.entered[0] for r in ended if r.entered and _died_of_mismatch(r)]
    if fatal:  # the deaths show that sizes matter, so sizes that may differ are compared as well
        with_all_sizes = (
            _contribution(r, collective, (*SAME_SIZE_OPS, "all_to_all"))
            for r, collective in _entered_at_positions_of(fatal, ranks)
        )
        return _proven_mismatch(ranks) or first_mismatch(with_all_sizes)
    if any(map(_died_of_abort, ended)) and (proven := _proven_mismatch(ranks)):
        return proven
    return _probable_mismatch(ranks, [r for r in ended if r.entered and _ended_without_trace(r)], even)


def _is_behind(state: RankState, aborted: Sequence[RankState]) -> bool:
    """Return True if a rank has not entered a collective in which one of the others was aborted."""
    counts = entered_counts(state)
    return any(
        counts.get(r.in_flight.group, r.in_flight.sequence) < r.in_flight.sequence for r in aborted if r.in_flight
    )


def _proven_mismatch(ranks: Sequence[RankState], same_size: Sequence[str] = SAME_SIZE_OPS) -> Mismatch | None:
    """Return the first recent collective of another kind, or of another size where the sizes must be equal."""
    return first_mismatch(_contribution(r, collective, same_size) for r in ranks for collective in r.entered)


def _probable_mismatch(
    ranks: Sequence[RankState], wordless: Sequence[RankState], even: Sequence[str]
) -> Mismatch | None:
    """Return the mismatch at which gloo may have aborted the ranks without last words; their exit status is unknown.

    The sizes of an all-to-all may differ, so they cannot show which rank is wrong: such a mismatch names nobody. It
    counts only if several ranks ended in it while a launcher lives, because no other fault does that. If every launcher
    ended too, somebody ended the whole job.
    """
    entered = _entered_at_positions_of([r.entered[0] for r in wordless], ranks)
    proven = first_mismatch(_contribution(r, collective, (*SAME_SIZE_OPS, *even)) for r, collective in entered)
    if proven is not None or len(wordless) < 2 or all(launcher_lead(r) is not None for r in wordless):
        return proven
    probable = first_mismatch(_contribution(r, collective, ("all_to_all",)) for r, collective in entered)
    return None if probable is None else probable._replace(minority=[])


def _entered_at_positions_of(
    collectives: Sequence[EnteredCollective], ranks: Sequence[RankState]
) -> list[tuple[RankState, EnteredCollective]]:
    """Return what each rank entered at the positions of these collectives."""
    positions = {(collective.group, collective.sequence) for collective in collectives}
    return [
        (r, collective)
        for r in ranks
        for collective in r.entered
        if (collective.group, collective.sequence) in positions
    ]


def _contribution(rank: RankState, entered: EnteredCollective, same_size: Sequence[str]) -> Contribution:
    num_bytes = entered.num_bytes if entered.op in same_size else None
    return Contribution(rank, entered.group, entered.sequence, entered.op, num_bytes)


def _died_of_mismatch(state: RankState) -> bool:
    """Return True if gloo aborted the rank while it waited, or its last error is about a mismatch."""
    if state.device != "cpu":  # NCCL compares nothing
        return False
    words = state.last_words
    if words is not None and words.kind == "exception":
        return _MISMATCH_ERROR.search(words.message) is not None
    return _died_of_abort(state) and state.in_flight is not None


def _died_of_abort(state: RankState) -> bool:
    """Return True if SIGABRT ended a rank on CPUs without last words, as an abort by gloo does.

    The rank need not be in a collective: an asynchronous one fails while the rank computes.
    """
    return state.device == "cpu" and state.last_words is None and state.exit_status == "signal SIGABRT"


def _ended_without_trace(state: RankState) -> bool:
    """Return True if a rank on CPUs ended in a collective, without last words and without an exit status."""
    is_unknown = not state.alive and state.last_words is None and state.exit_status is None
    return is_unknown and state.in_flight is not None and state.device == "cpu"
