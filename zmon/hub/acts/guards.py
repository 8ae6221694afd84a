"""The guards of acts, in one place: each guard says in one line why zmon does not act now. Pure.

The agent of the host has its own guards (zmon/agent/acts/). They are about the process, whose state the hub may know
too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from zmon.act_stops import ALL
from zmon.format import counted
from zmon.hub.acts.score import Score
from zmon.schema.act import ACT_INTERVAL_SECONDS, ACTED, CAPTURE, ENFORCE, KILL_CULPRIT, UNANSWERED, Intent
from zmon.schema.job_snapshot import Snapshot

STORM_SECONDS = 60.0
# If so many jobs or hosts have culprits within a minute, they have one cause that no kill of a rank removes, such as
# storage, a switch or a power feed. A person must look.
STORM_JOBS = STORM_HOSTS = 3
CLOCK_SECONDS = 60.0  # after the clock was set, ages are wrong until all agents have answered again
NEEDED_RIGHT = 20  # right intents of a cause at this site, and none wrong, before a rule acts
MAX_CULPRITS = 4  # if more ranks are at fault at once, the cause is probably not in these ranks


@dataclass(frozen=True)
class Site:
    """The facts that the guards use beside the intent and its job."""

    intents: Iterable[Intent]  # the earlier intents
    scores: Mapping[str, Score] = field(default_factory=dict)  # by cause
    stops: Mapping[str, str] = field(default_factory=dict)  # what a person or a breaker has stopped, with the reason
    seconds_since_clock_set: float | None = None  # None: never


def unproven_reason(intent: Intent, override: str, site: Site) -> str:
    """Return why a rule that would act may only observe yet; empty if it may act."""
    score = site.scores.get(intent.cause, Score())
    if override or is_proven(score):
        return ""
    return (
        f"it only observes: to act it needs {NEEDED_RIGHT} right and no wrong intents of {intent.cause}, and has "
        f"{score.right} right and {score.wrong} wrong"
    )


def is_proven(score: Score) -> bool:
    """Return True if the intents of a cause were right often enough at this site, and never wrong."""
    return score.right >= NEEDED_RIGHT and not score.wrong


def storm_reason(intents: Iterable[Intent], now: float) -> str:
    """Return why the faults of the last minute must have one common cause; empty if they need not."""
    recent = [
        intent
        for intent in intents
        if intent.mode == ENFORCE and intent.act != CAPTURE and now - intent.time <= STORM_SECONDS
    ]
    jobs = {intent.job_id for intent in recent}
    hosts = {host for intent in recent for host in intent.hosts}
    if len(jobs) < STORM_JOBS and len(hosts) < STORM_HOSTS:
        return ""
    return f"culprits in {counted(len(jobs), 'job')} on {counted(len(hosts), 'host')} within {STORM_SECONDS:.0f} s"


def rule_stop(rule: str) -> str:
    """Return the name of the stop of one rule."""
    return f"rule-{rule}"


def refusals(intent: Intent, snapshot: Snapshot, site: Site) -> Iterator[str]:
    """Yield each reason why nothing may be done about this intent now."""
    for name in (ALL, rule_stop(intent.rule)):
        if name in site.stops:
            yield f"acts are stopped ({name}): {site.stops[name]}"
    if intent.act == CAPTURE:
        return
    if site.seconds_since_clock_set is not None and site.seconds_since_clock_set < CLOCK_SECONDS:
        yield f"the clock of the hub's host was set {site.seconds_since_clock_set:.0f} s ago"
    if num_unwatched := snapshot.num_missing + len(snapshot.unwatched):
        yield f"{counted(num_unwatched, 'rank')} of {snapshot.world_size} are not watched"
    for earlier in site.intents:
        seconds = intent.time - earlier.time
        if earlier.job_id == intent.job_id and earlier.result in (ACTED, UNANSWERED) and seconds < ACT_INTERVAL_SECONDS:
            limit = f"one act in {ACT_INTERVAL_SECONDS / 60:g} minutes, then it is decided again"
            yield f"{earlier.rule} acted on this job {seconds:.0f} s ago: {limit}"
            break
    if intent.act == KILL_CULPRIT:
        if not intent.ranks:
            yield "the finding names no rank"
        elif len(intent.ranks) > MAX_CULPRITS or 2 * len(intent.ranks) > snapshot.world_size:
            yield f"{len(intent.ranks)} of {snapshot.world_size} ranks are at fault: too many for a fault of the ranks"
