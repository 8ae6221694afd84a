"""Ranks are gone: which went first, of what, and will the launcher bring them back?"""

from __future__ import annotations

from dataclasses import dataclass

from zmon.detectors.parts.deaths import Death, culprits, deaths, ended, gone, hung
from zmon.detectors.parts.memory import out_of_memory
from zmon.detectors.parts.sizes import quarrel
from zmon.detectors.parts.verdict import drain, verdict
from zmon.detectors.parts.waiting import Mismatch
from zmon.detectors.parts.wording import ranks_on
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.names import Severity
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot
from zmon.schema.thresholds import Thresholds


@dataclass(frozen=True)
class Limits(Thresholds):
    """Thresholds in seconds."""

    settle_seconds: float = 0.5  # peers die of a death within 50 ms, the launcher ends the rest within 200
    together_seconds: float = 0.3  # deaths this close have no order: three looks of the agent
    restart_seconds: float = 30.0  # a launcher that restarts has the job back by then
    lost_seconds: float = 5.0  # of an agent before its host counts as lost, where all others died of its connections


def exited(snapshot: Snapshot, detector: str, limits: Limits) -> Finding | None:
    """The death that ended the job, if one did."""
    over = ended(snapshot.ranks)
    dead = deaths(snapshot.ranks)
    first_gone = max((gone(r) for r, _ in dead), default=0.0)
    if not dead or first_gone < limits.settle_seconds:
        return None
    if (found := quarrel(snapshot.ranks, over)) is not None:
        return _quarrelled(snapshot, detector, limits, found, first_gone)
    guilty = culprits(dead, limits.together_seconds)
    watched_out = snapshot.unwatched or len(over) < len(snapshot.ranks)
    if not guilty and len(dead) == len(snapshot.ranks) and all(how is Death.VICTIM for _, how in dead):
        silent = {agent.host: agent.silent_seconds for agent in snapshot.agents}
        if snapshot.unwatched and all(silent.get(r.host, 0.0) >= limits.lost_seconds for r in snapshot.unwatched):
            return _lost(snapshot, detector, limits, first_gone)
    if not guilty and (any(how is Death.CANCELLED for _, how in dead) or watched_out):
        return None  # ended by its owner; or only victims so far, and the one they died of is not seen yet
    if not guilty:
        return _all_victims(snapshot, detector, limits, first_gone)
    named = guilty[0]
    through = all(r.activity == "done" for r in snapshot.ranks)  # torch's teardown aborts a rank now and then
    severity, restarts = _next_start(dead[0][0], first_gone, limits)
    memory = out_of_memory(snapshot, named)
    lives = f" (process {named.pid} has not ended yet)" if named.alive else ""
    if named in hung(snapshot.ranks):
        lives = " (the others had waited for it, and ended first)"
    return verdict(
        snapshot,
        detector=detector,
        cause="rank_exited",
        severity="warning" if through else severity,
        culprits=guilty,
        seconds_ago=first_gone,
        confidence=0.95,
        summary=f"rank {named.rank} on {named.host} exited at step {named.step} during {named.activity}: "
        f"{_ending(named)}{f' ({memory})' if memory else lives}; {'the training was through' if through else restarts}",
        detail=_after(named, through, memory),
        evidence=Evidence(last_words=named.last_words, exit_status=named.exit_status, out_of_memory=memory),
    )


def _quarrelled(snapshot: Snapshot, detector: str, limits: Limits, found: Mismatch, ago: float) -> Finding:
    severity, restarts = _next_start(snapshot.ranks[0], ago, limits)
    return verdict(
        snapshot,
        detector=detector,
        cause="collective_mismatch" if found.minority else "unknown",
        severity=severity,
        culprits=found.minority,
        seconds_ago=ago,
        confidence=0.9 if found.minority else 0.3,
        summary=f"ranks died because they disagree about collective {found.sequence} of group {found.group}: "
        f"{found.said} ({ranks_on(found.minority) or 'no majority, so nobody is named'}); {restarts}",
        detail="One rank brought another size or another collective than the rest, and the library aborted those that "
        "noticed. Look at what makes the size on that rank: a last, smaller batch, its share of a table, its split "
        "sizes. Starting again will end the same way.",
        evidence=Evidence(group=found.group, sequence=found.sequence),
    )


def _lost(snapshot: Snapshot, detector: str, limits: Limits, ago: float) -> Finding:
    severity, restarts = _next_start(snapshot.ranks[0], ago, limits)
    hosts = sorted({r.host for r in snapshot.unwatched})
    return verdict(
        snapshot,
        detector=detector,
        cause="host_lost",
        severity=severity,
        culprits=snapshot.unwatched,
        seconds_ago=ago,
        confidence=0.8,
        summary=f"{', '.join(hosts)} does not answer, and the {len(snapshot.ranks)} ranks elsewhere died of broken "
        f"connections at step {snapshot.ranks[0].step}; {restarts}",
        detail=f"Is the host up (`ping {hosts[0]}`, its console or BMC)? Take it out ({drain(hosts[0])}) and start the "
        "job elsewhere.",
        evidence=Evidence(hosts=tuple(hosts)),
    )


def _all_victims(snapshot: Snapshot, detector: str, limits: Limits, ago: float) -> Finding:
    severity, restarts = _next_start(snapshot.ranks[0], ago, limits)
    why = "and one that nobody sees went first" if snapshot.missing else "whose end broke them is not known"
    return verdict(
        snapshot,
        detector=detector,
        cause="unknown",
        severity=severity,
        culprits=(),
        seconds_ago=ago,
        confidence=0.3,
        summary=f"all {len(snapshot.ranks)} ranks died of broken connections at step {snapshot.ranks[0].step}, {why}; "
        f"{restarts}",
        detail="Look at the job's log for the first error, and for a host of the job that has no agent.",
        evidence=Evidence(last_words=None, exit_status=None),
    )


def _next_start(state: RankState, ago: float, limits: Limits) -> tuple[Severity, str]:
    """How bad it is, and what the launcher will do about it."""
    left = None if state.max_restarts is None else state.max_restarts - state.restart_count
    severity: Severity = "critical"
    says = "nothing will start it again"
    if left is not None and left > 0:
        severity = "warning" if ago < limits.restart_seconds else "critical"
        says = f"the launcher has {left} restarts left and may start it again"
    return severity, says


def _after(named: RankState, through: bool, memory: str | None) -> str:
    if through:
        return f"All ranks had come to their end. Is the last checkpoint whole? The job's log on {named.host} has more."
    if memory:
        return (
            f"On {named.host}: `dmesg -T | grep -i -A20 'out of memory'` shows who held how much. Give the ranks more "
            "memory, or let them take less (fewer loader workers, smaller batches or caches), and start the job again."
        )
    return (
        f"Read the end of rank {named.rank}'s log, then the kernel's on {named.host}: `dmesg -T | tail -50` "
        "(out of memory? GPU error?). Start the job again from its last checkpoint."
    )


def _ending(state: RankState) -> str:
    words = state.last_words
    if words and words.kind == "exception":
        return f"{words.type.removeprefix('builtins.')}: {words.message.splitlines()[0] if words.message else ''}"
    return state.exit_status or "killed without a word"
