"""Say when something happened to a rank, how exactly the time is known, and which of two facts came first. Pure.

A fact has an earliest and a latest time, in seconds relative to the snapshot: -3.0 is three seconds ago. How far they
are apart depends on how the fact was observed:

- The rank stamps its last words itself, and the kernel stamps its signals. Their times are exact.
- An agent polls locks, process states and launchers. It observes a change of these at most `LOOK_SECONDS` late.

A comparison of two facts (`before`) adds two tolerances:

- `ALIGNED_SECONDS` if the facts are of two hosts, because their reports travel.
- `spread`, which the caller gives: one cause may show on several ranks one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from zmon.job.connection_errors import is_broken_connection
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

# An agent polls ten times a second, and less often on a busy machine. The ranks that are left lose their connections
# within 0.05 s.
LOOK_SECONDS = 0.3
# Reports of two hosts travel for milliseconds. The hub knows how much longer each report took than the quickest report,
# and not how long the quickest report took (zmon/job/agent_reports.py).
ALIGNED_SECONDS = 0.02
# A signal to the ranks of a launcher reaches all its ranks within 0.07 s on a busy machine, and within 0.002 s on an
# idle machine. torchrun looks for dead ranks every 0.1 s, so its signals after a failure come later.
SIGNAL_SPREAD_SECONDS = 0.08
IDLE_SIGNAL_SPREAD_SECONDS = 0.02
# Anyone who ends a job on several hosts reaches the hosts one after the other.
HOSTS_SPREAD_SECONDS = 0.3
# Ranks that one signal ended are reported dead within this time, apart from the agent's polling: the spread of the
# signal, and the delay of reports on a busy machine. A rank that ended later was spared.
ENDED_SPREAD_SECONDS = 0.2
# Both ends of a connection notice its reset within this time (measured: 0 to 8 ms). The other ranks lose their
# connections only when one of the two processes has ended (0.5 s and more).
RESET_SPREAD_SECONDS = 0.1
# The agent polls a rank and then its launcher. A launcher that was observed dead one poll earlier ended first. The
# kernel ends all processes of a container at once, and then either may be observed dead first.
ONE_LOOK_SECONDS = 0.02
# Schedulers and containers wait 10 to 30 s before they kill the ranks of a launcher that a signal has ended.
GRACE_SECONDS = 60.0


class FactKind(Enum):
    """The kinds of facts about a rank, with the words of the incident's timeline."""

    RAISED = "raised"
    CONNECTION_LOST = "lost a connection"
    SIGNALLED = "had a signal"
    LEFT = "left"
    UNLOCKED = "process ended"
    STOPPED = "process stopped"
    LAUNCHER_GONE = "launcher ended"
    SILENT = "agent fell silent"
    SUSPENDED = "host was suspended"


_KIND_OF_WORDS = {"exception": FactKind.RAISED, "signal": FactKind.SIGNALLED}


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that happened to a rank or on its host."""

    kind: FactKind
    host: str
    latest: float  # seconds relative to the snapshot
    uncertainty: float = 0.0  # seconds by which the fact may have happened earlier
    rank: int | None = None
    text: str = ""  # details of the fact, in one line

    @property
    def earliest(self) -> float:
        """The time before which the fact did not happen, in seconds relative to the snapshot."""
        return self.latest - self.uncertainty


def before(first: Fact, second: Fact, spread: float = 0.0) -> bool | None:
    """Return True if the first fact certainly came before the second, False if certainly after it; None: unknown.

    `spread` is the time in seconds within which both facts may have one cause.
    """
    spread += 0.0 if first.host == second.host else ALIGNED_SECONDS
    if first.latest + spread < second.earliest:
        return True
    return False if second.latest + spread < first.earliest else None


class Earliest:
    """The earliest of some facts, by host, so that a fact is not compared with thousands of facts."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        by_host: dict[str, Fact] = {}
        for fact in sorted(facts, key=lambda fact: fact.latest):
            by_host.setdefault(fact.host, fact)
        self._by_host = by_host
        self._first_two = list(by_host.values())[:2]

    def precedes(self, fact: Fact) -> bool:
        """Return True if one of the earliest facts certainly came before this fact."""
        candidates = (*self._first_two, self._by_host.get(fact.host))
        return any(before(candidate, fact) for candidate in candidates if candidate is not None)


def last_words(state: RankState) -> Fact | None:
    """Return the fact that a rank left its last words, whose time is exact; None if it left no last words.

    An exception is RAISED here. Only `facts_of` recognizes a lost connection, because this takes too long for each of
    thousands of ranks.
    """
    words = state.last_words
    if words is None or state.last_words_seconds is None:
        return None
    return Fact(_KIND_OF_WORDS.get(words.kind, FactKind.LEFT), state.host, -state.last_words_seconds, rank=state.rank)


def ended(state: RankState) -> Fact:
    """Return the fact that a rank was observed dead, or that a living rank left its last words and began to end."""
    if state.alive:
        return last_words(state) or Fact(FactKind.RAISED, state.host, -gone_seconds(state), rank=state.rank)
    text = state.exit_status or ""
    return Fact(FactKind.UNLOCKED, state.host, -gone_seconds(state), LOOK_SECONDS, rank=state.rank, text=text)


def began_to_end(state: RankState) -> Fact:
    """Return the first fact about the end of a rank: its last words, or else that it was observed dead."""
    return last_words(state) or ended(state)


def gone_seconds(state: RankState) -> float:
    """Return the seconds since the rank was observed dead, or since it left its last words and began to end."""
    return (state.leaving_seconds if state.alive else state.gone_seconds) or 0.0


def launcher_end(state: RankState) -> Fact | None:
    """Return the fact that the launcher of a rank was observed dead; None if it lives, or is unknown."""
    if state.launcher_gone_seconds is None:
        return None
    text = state.launcher_status or ""
    return Fact(FactKind.LAUNCHER_GONE, state.host, -state.launcher_gone_seconds, LOOK_SECONDS, text=text)


def launcher_lead(state: RankState) -> float | None:
    """Return the seconds by which the launcher of a rank was observed dead before the rank; negative: after it.

    None if the launcher lives, if its state is unknown, or if the two ends have nothing to do with each other.
    """
    if state.launcher_gone_seconds is None:
        return None
    lead = state.launcher_gone_seconds - gone_seconds(state)
    return lead if -LOOK_SECONDS <= lead <= GRACE_SECONDS else None


def facts_of(snapshot: Snapshot, ranks: Iterable[RankState]) -> Iterator[Fact]:
    """Yield the facts about these ranks of a job, and about the agents that do not answer, in no order."""
    for state in ranks:
        if (fact := last_words(state)) and (words := state.last_words):
            is_lost = words.kind == "exception" and is_broken_connection(words)
            text = f"{words.type}: {words.message}" if words.message else words.type or words.kind
            yield replace(fact, kind=FactKind.CONNECTION_LOST if is_lost else fact.kind, text=text)
        if not state.alive:
            yield ended(state)
        if state.stopped_seconds is not None:
            yield Fact(FactKind.STOPPED, state.host, -state.stopped_seconds, LOOK_SECONDS, rank=state.rank)
        if fact := launcher_end(state):
            yield fact
        if state.unobserved_seconds:
            text = f"{state.unobserved_seconds:.0f} s since its last progress"
            earlier_by = max(0.0, state.state_seconds - state.unobserved_seconds)  # its last progress came before
            latest = -state.unobserved_seconds
            yield Fact(FactKind.SUSPENDED, state.host, latest, uncertainty=earlier_by, rank=state.rank, text=text)
    unwatched = {r.host for r in snapshot.unwatched}
    for agent in snapshot.agents:
        if agent.host is not None and agent.host in unwatched:
            yield Fact(FactKind.SILENT, agent.host, -agent.silent_seconds)
