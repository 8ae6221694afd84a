"""Diagnose a job in which no rank moves, all ranks live, and no lock or process state proves anything.

The rules infer the culprit from which ranks wait for which, in a fixed order. If none of them applies, the cause is
`unknown`, and the finding has all evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zmon.detectors.hangs import different_paths, flight_records
from zmon.detectors.hangs.awaited_ranks import awaited_ranks, has_one_rank, have_issued_alike
from zmon.detectors.hangs.diagnosis import Diagnosis, hang, hang_of_only_rank, network_stall, own_line, unknown
from zmon.detectors.hangs.limits import HangLimits
from zmon.detectors.network import answering_hosts, stalled_network
from zmon.detectors.new_finding import drain
from zmon.detectors.wording import ranks_on, ranks_text, verb
from zmon.format import counted, duration
from zmon.job.aborts import hung_ranks
from zmon.job.rank_end import Way, way_of
from zmon.schema.evidence import StallEvidence
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import LINK
from zmon.schema.rank import RankState

# A host is not lost if other ranks still finish steps this long after its agent fell silent, or one lease after that if
# the lease is longer.
_UNSEEN_SECONDS = 5.0


def diagnose(snapshot: Snapshot, limits: HangLimits) -> Diagnosis:
    """Return the diagnosis of the first rule that applies, or `unknown`."""
    alive = snapshot.unfinished_ranks
    rules = (
        different_paths.mismatch,
        different_paths.skipped,
        different_paths.crossed,
        different_paths.left,  # a rank that is gone cannot be lost, late or in a hang
        _lost_host,
        partial(_network, limits.num_timeouts),  # ranks that all wait in a collective overrun no lease by themselves
        _overrun,
        _only_rank,
        _not_issued,
        _in_no_collective,
    )
    diagnoses = (rule(snapshot, alive) for rule in rules)
    return next((diagnosis for diagnosis in diagnoses if diagnosis), None) or unknown(snapshot, alive)


def _lost_host(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis that the others wait for ranks on a host that does not answer."""
    up = answering_hosts(snapshot)  # only their agents are silent
    lost = [r for r in snapshot.unwatched if r.activity != "done" and r.host not in up]
    is_waiting = any(r.in_flight for r in alive) or have_issued_alike(alive)
    if not lost or not is_waiting or awaited_ranks(alive):
        return None  # no rank waits, or the others wait for a watched rank
    hosts = sorted({r.host for r in lost})
    silent = max((a.silent_seconds for a in snapshot.agents if a.host in hosts), default=0.0)
    steps_went_on_seconds = silent - min(r.step_seconds for r in alive)
    if steps_went_on_seconds > max(_UNSEEN_SECONDS, *(r.lease_seconds or 0.0 for r in alive)):
        return None
    return Diagnosis(
        cause="host_lost",
        summary=f"{', '.join(hosts)} {verb(hosts, 'has', 'have')} not answered for {silent:.1f} s and the others wait "
        f"for {counted(len(lost), 'rank')} there",
        detail=f"Is the host up (`ping {hosts[0]}`, its console or BMC)? Take it out ({drain(hosts[0])}) and "
        "start the job elsewhere.",
        confidence=0.8,
        culprits=lost,
        proof=LINK,
    )


def _network(num_timeouts: int, snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis that all ranks wait because of the network."""
    if not alive or snapshot.missing or snapshot.unwatched:
        return None
    culprit = stalled_network(snapshot, num_timeouts)
    if culprit is None:
        return None
    if flight_records.all_wait(snapshot, alive):
        return network_stall(culprit)
    # If only some connections fail, a collective may end on the other hosts, which then wait in the next one.
    do_all_wait = all(flight_records.is_waiting(snapshot, r) for r in alive)
    return network_stall(culprit) if culprit.links and do_all_wait else None


def _overrun(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis of ranks that are in another activity than training, and in no collective."""
    not_training = [r for r in alive if r.activity != "train" and not r.in_flight]
    if not not_training:
        return None
    longest = max(not_training, key=lambda r: r.overdue_seconds)
    time = f"{longest.activity_seconds:.1f} s (lease {longest.lease_seconds or 0.0:.0f} s)"
    if snapshot.missing and len(not_training) == len(alive):
        missing = ranks_text(snapshot.missing, snapshot.num_missing)
        return Diagnosis(
            cause="lease_overrun",
            summary=f"{missing} never started; all others have been in {longest.activity} for {time}",
            detail=f"Did the launcher start {missing}, and on which host? The job's log has more. A host "
            "without an agent would look the same.",
            confidence=0.5,
            evidence=StallEvidence(missing=snapshot.missing, num_missing=snapshot.num_missing),
        )
    stack = "`zmon status --json` has its stack."
    if has_one_rank(snapshot):
        stack = f"Look at {own_line(snapshot, longest)}; its stack is in the finding."
    never_started = "" if has_one_rank(snapshot) else ", or wait for a rank that never started"
    others = ", and the others wait" if len(not_training) < len(alive) else ""
    return Diagnosis(
        cause="lease_overrun",
        summary=f"{ranks_on(not_training)} {verb(not_training, 'has', 'have')} been in {longest.activity} for "
        f"{time}{others}",
        detail=f"{stack} In a checkpoint: does the storage answer (on {longest.host}: `df`, "
        f"`cat /proc/{longest.pid}/wchan`)? In init: does it load data or compile{never_started}?",
        confidence=0.8,
        culprits=not_training,
    )


def _only_rank(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    return hang_of_only_rank(snapshot, alive[0]) if alive and has_one_rank(snapshot) else None


def _not_issued(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis of ranks that, by flight record, have not reached the collective of the others."""
    if culprits := flight_records.root_ranks(snapshot):
        has = verb(culprits, "it has", "they have")
        reason = f"the flight records show that {has} not issued the collective in which the others wait"
        return hang(culprits, reason, 0.8 if len(culprits) == 1 else 0.6)
    if culprits := flight_records.behind_on_device(snapshot):
        has = verb(culprits, "its GPU has", "their GPUs have")
        reason = f"the flight records show that {has} not reached the collective in which the other GPUs are"
        return hang(culprits, reason, 0.7)
    return None


def _in_no_collective(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis of ranks in no collective for which the others wait, by what Python sees of the ranks."""
    if snapshot.missing or snapshot.unwatched:
        return None  # the culprit may be a rank that is not watched
    outlived = [r for r in hung_ranks(snapshot.ranks) if r.alive]
    if not outlived and any(r.device != "cpu" for r in alive):
        return None  # on a GPU a rank issues a collective and goes on, so the place in its code shows no hang
    culprits = outlived or awaited_ranks(alive)
    if not culprits and all(r.phase == "data" and not r.in_flight for r in alive):
        culprits = alive
    if any(flight_records.is_waiting(snapshot, r) for r in culprits):
        return None  # the rank itself waits, in a collective that C++ issued
    them = verb(culprits, "it", "them")
    num_waiting = sum(1 for r in alive if r.in_flight)
    reason = f"{num_waiting} of {snapshot.world_size} ranks wait in a collective for {them}"
    if outlived:
        reason = f"{len(snapshot.ranks) - len(alive)} of {snapshot.world_size} ranks waited for {them} and are gone"
    elif not num_waiting:
        reason = "no rank is in a collective"
    return hang(culprits, reason, 0.8)


def finishing(snapshot: Snapshot, alive: Sequence[RankState]) -> Diagnosis | None:
    """Return the diagnosis of ranks that go on after all others have finished; None if there are none, or if they wait.

    They upload a model, draw plots, write a report. No rank waits for them, so nothing is lost meanwhile, and it may
    take minutes. A rank that hangs in its teardown looks the same. `alive` has the ranks that have not finished.
    """
    unfinished = {r.rank for r in alive}
    rest = [r for r in snapshot.ranks if r.rank not in unfinished]
    if not rest or not alive or snapshot.missing or snapshot.unwatched:
        return None
    if not all(r.activity == "done" and (r.alive or way_of(r) is Way.FINISHED) for r in rest):
        return None
    if any(flight_records.is_waiting(snapshot, r) for r in alive):
        return None
    if len(alive) > 1 and any(r.device != "cpu" for r in alive):
        return None  # on a GPU a rank issues a collective and goes on, so these may wait for each other
    first = alive[0]
    return Diagnosis(
        cause="compute_hang",
        summary=f"{ranks_on(alive)} {verb(alive, 'has', 'have')} gone on alone for {duration(first.step_seconds)} "
        f"since the last step, and all {len(rest)} others have finished",
        detail=f"No rank waits for it. It may upload a model or write a report: its stack is in the finding, or run "
        f"`py-spy dump --native --pid {first.pid}` on {first.host}. If it hangs in its teardown, check that its last "
        "checkpoint is complete, and end it.",
        confidence=0.6,
        culprits=alive,
    )
