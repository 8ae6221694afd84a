"""Say when something happened to a rank, how exactly that is known, and which of two facts came first. Pure.

A fact has a time for "at the earliest" and one for "at the latest", in seconds relative to the snapshot: -3.0 is three
seconds ago. They differ by how the fact was observed, so nobody who compares two facts needs another tolerance:

- The rank stamps its last words itself, and the kernel its signals: their time is exact.
- An agent looks at locks, process states and launchers, so such a fact is seen `LOOK_SECONDS` late at most.
- Facts of two hosts differ further by `ALIGNED_SECONDS`, because their reports travel.
- One cause may show on several ranks one after the other; who compares such facts says for how long (`spread`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from zmon.job.connection_errors import is_broken_connection
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

# An agent looks ten times a second, and less often on a busy machine. The others lose their connections within 0.05 s.
LOOK_SECONDS = 0.3
# Reports of two hosts travel for milliseconds. The hub knows how much longer than the quickest one each took, and not
# how long the quickest took (zmon/job/agent_reports.py).
ALIGNED_SECONDS = 0.02
# A signal to the ranks of a launcher reaches all of them within 0.07 s on a busy machine, and within 0.002 s on an idle
# one. torchrun looks for dead ranks every 0.1 s, so what it sends after a failure comes later.
SIGNAL_SPREAD_SECONDS = 0.08
IDLE_SIGNAL_SPREAD_SECONDS = 0.02
# Whoever ends a job on several hosts reaches one after the other.
HOSTS_SPREAD_SECONDS = 0.3
# Ranks that one signal ended are seen dead within this time, beside the look of an agent: the spread of the signal, and
# the delay of reports on a busy machine. A rank that ended later was spared.
ENDED_SPREAD_SECONDS = 0.2
# Both ends of a connection notice its reset within this time (measured: 0 to 8 ms). The other ranks lose their
# connections only when one of the two processes has ended (0.5 s and more).
RESET_SPREAD_SECONDS = 0.1
# The agent looks at a rank and then at its launcher. A launcher that was seen dead one look earlier ended first. The
# kernel ends all processes of a container at once, and then either may be seen dead first.
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
    uncertainty: float = 0.0  # seconds by which it may have happened earlier
    rank: int | None = None
    text: str = ""  # what is known about it, in one line

    @property
    def earliest(self) -> float:
        """The time before which it did not happen."""
        return self.latest - self.uncertainty


def before(first: Fact, second: Fact, spread: float = 0.0) -> bool | None:
    """Return True if the first fact certainly came before the second, False if certainly after it; None: unknown.

    `spread`: the seconds within which one cause may show both.
    """
    spread += 0.0 if first.host == second.host else ALIGNED_SECONDS
    if first.latest + spread < second.earliest:
        return True
    return False if second.latest + spread < first.earliest else None


class Earliest:
    """The earliest of some facts, by host, so that no fact must be compared with each of thousands."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        by_host: dict[str, Fact] = {}
        for fact in sorted(facts, key=lambda fact: fact.latest):
            by_host.setdefault(fact.host, fact)
        self._by_host = by_host
        self._first_two = list(by_host.values())[:2]

    def precedes(self, fact: Fact) -> bool:
        """Return True if one of them certainly came before this fact."""
        candidates = (*self._first_two, self._by_host.get(fact.host))
        return any(before(each, fact) for each in candidates if each is not None)


def last_words(state: RankState) -> Fact | None:
    """Return the fact that a rank left its last words, whose time is exact; None if it left none.

    `facts_of` tells a lost connection from other exceptions, which takes too long for each of thousands of ranks.
    """
    words = state.last_words
    if words is None or state.last_words_seconds is None:
        return None
    return Fact(_KIND_OF_WORDS.get(words.kind, FactKind.LEFT), state.host, -state.last_words_seconds, rank=state.rank)


def ended(state: RankState) -> Fact:
    """Return the fact that a process was seen dead, or that a living one left its last words and began to end."""
    if state.alive:
        leaving = state.leaving_seconds or 0.0
        return last_words(state) or Fact(FactKind.RAISED, state.host, -leaving, rank=state.rank)
    text = state.exit_status or ""
    return Fact(FactKind.UNLOCKED, state.host, -(state.gone_seconds or 0.0), LOOK_SECONDS, state.rank, text)


def began_to_end(state: RankState) -> Fact:
    """Return the first fact about the end of a rank: its last words, or else that it was seen dead."""
    return last_words(state) or ended(state)


def gone_seconds(state: RankState) -> float:
    """Return the seconds since the rank was seen dead, or since it left its last words and began to end."""
    return (state.leaving_seconds if state.alive else state.gone_seconds) or 0.0


def launcher_lead(state: RankState) -> float | None:
    """Return the seconds by which the launcher of a rank was seen dead before the rank; negative: after it.

    None if it lives, if that is not known, or if the two ends have nothing to do with each other.
    """
    if state.launcher_gone_seconds is None:
        return None
    lead = state.launcher_gone_seconds - gone_seconds(state)
    return lead if -LOOK_SECONDS <= lead <= GRACE_SECONDS else None


def facts_of(snapshot: Snapshot, ranks: Iterable[RankState]) -> Iterator[Fact]:
    """Yield what is known about these ranks of a job, and about the agents that do not answer, in no order."""
    for state in ranks:
        if (fact := last_words(state)) and (words := state.last_words):
            is_lost = words.kind == "exception" and is_broken_connection(words)
            text = f"{words.type}: {words.message}" if words.message else words.type or words.kind
            yield replace(fact, kind=FactKind.CONNECTION_LOST if is_lost else fact.kind, text=text)
        if not state.alive:
            yield ended(state)
        if state.stopped_seconds is not None:
            yield Fact(FactKind.STOPPED, state.host, -state.stopped_seconds, LOOK_SECONDS, state.rank)
        if state.launcher_gone_seconds is not None:
            text = state.launcher_status or ""
            yield Fact(FactKind.LAUNCHER_GONE, state.host, -state.launcher_gone_seconds, LOOK_SECONDS, text=text)
        if state.unobserved_seconds:
            text = f"{state.unobserved_seconds:.0f} s since its last progress"
            began = max(0.0, state.state_seconds - state.unobserved_seconds)  # its last progress came before
            yield Fact(FactKind.SUSPENDED, state.host, -state.unobserved_seconds, began, state.rank, text)
    unwatched = {r.host for r in snapshot.unwatched}
    for agent in snapshot.agents:
        if agent.host is not None and agent.host in unwatched:
            yield Fact(FactKind.SILENT, agent.host, -agent.silent_seconds)
