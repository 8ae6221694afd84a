"""The acts of a hub: what it would do about findings, or does, if its site allows it (`zmon hub --act`).

In each pass, `policy` says which critical finding asks for which act. A finding that asks for long enough without
healing becomes an intent (`intents`). `guards` refuse intents that must not be carried out now. For others the hub asks
the agent of the host, which may still refuse (zmon/agent/acts/). Each change of an intent is a line of `intents.jsonl`,
which is on disk before an agent is asked. `score` judges an intent by what the job did afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import aiohttp
import msgspec

from zmon.act_stops import ALL, Stop, stop, stops
from zmon.errors import Unreachable
from zmon.hub.acts.guards import Site, is_proven, refusals, rule_stop, storm_reason, unproven_reason
from zmon.hub.acts.intents import make_intent
from zmon.hub.acts.policy import ActRule, Policy, read_policy
from zmon.hub.acts.score import scores, with_score_or_outcome
from zmon.hub.agent_link import AgentLink, links_of
from zmon.hub.json_lines import JsonLines
from zmon.hub.write_errors import WriteErrors
from zmon.schema.act import (
    ACT_INTERVAL_SECONDS,
    ACTED,
    CAPTURE,
    DID_NOT_HELP,
    ENFORCE,
    KILL_CULPRIT,
    OBSERVE,
    REFUSED,
    RESULTS,
    RIGHT,
    UNANSWERED,
    WRONG,
    ActAnswer,
    ActRequest,
    Intent,
)
from zmon.schema.api import IntentScore, endpoints
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.web import client

log = logging.getLogger("zmon.acts")

FILE = "intents.jsonl"  # name of the file in the data directory
# A refused intent is decided again after this time if its finding still asks: by then another act on the job is over.
AGAIN_SECONDS = ACT_INTERVAL_SECONDS
CAPSULE_SECONDS = 3.0  # an act does not wait longer for the capsule of its finding
ASK_SECONDS = 5.0
MAX_INTENTS = 5_000  # 5 MB; the oldest ones are forgotten
_LOST = "intents are lost when the hub ends, and nothing is done about them: free some disk space there"


class Intents:
    """The intents of one hub, on disk and in memory."""

    def __init__(self, policy: Policy, data_dir: Path, links: Sequence[AgentLink]) -> None:
        self.policy, self._data_dir, self._links = policy, data_dir, links
        self._intents: dict[str, Intent] = {}
        self._asked_since: dict[tuple[str, tuple[int, ...]], float] = {}  # by id and ranks of an intent: unix time
        self._clock_set_at: float | None = None  # unix time
        self._tasks: dict[str, asyncio.Task[None]] = {}  # requests to agents, by id of the intent
        self._new: list[Intent] = []  # news for `take_new`
        self._last_news: dict[str, tuple[str, tuple[str, ...]]] = {}  # by id of the intent: its state and reasons
        # Since the start, by act, cause and result. They begin at 0, so that Prometheus sees the first increase.
        kinds = {(rule.act, cause) for rule in policy.rules for cause in rule.causes}
        self.counts = Counter({(*kind, result): 0 for kind in sorted(kinds) for result in RESULTS})
        self._unreadable: list[bytes] = []  # lines of another version of zmon, which stay as they are
        self._errors = WriteErrors(log, _LOST)
        self._file = JsonLines(data_dir / FILE, self._errors, self._read, self._lines)
        self._file.open()

    @property
    def error(self) -> str | None:
        """The reason why intents cannot be written, or None."""
        return self._errors.error

    @property
    def stops(self) -> Mapping[str, Stop]:
        """The stops of a person or of a breaker: `all`, or `rule-` and the name of a rule."""
        return stops(self._data_dir)

    @property
    def stop_reasons(self) -> dict[str, str]:
        """The reason of each stop, by its name."""
        return {name: known_stop.reason for name, known_stop in self.stops.items()}

    def all(self) -> list[Intent]:
        """Return all intents, newest first."""
        return sorted(self._intents.values(), key=lambda intent: intent.time, reverse=True)

    def acts_text(self, snapshot: Snapshot) -> str:
        """Return what zmon did to this launch; empty if nothing."""
        launch = (snapshot.job_id, snapshot.reported_ranks[0].launch_id, snapshot.attempt)
        texts = []
        for intent in self._intents.values():
            is_of_launch = (intent.job_id, intent.launch_id, intent.attempt) == launch
            if is_of_launch and intent.result == ACTED and intent.act != CAPTURE:
                target = intent.who if intent.act == KILL_CULPRIT else "its launchers"
                texts.append(f"zmon ended {target} because of {intent.cause} (rule {intent.rule})")
        return "; ".join(texts)

    def scores(self) -> list[IntentScore]:
        """Return the score of each cause."""
        by_cause = scores(self._intents.values())
        return [
            IntentScore(cause, score.right, score.wrong, score.unclear, score.open, is_proven(score))
            for cause, score in sorted(by_cause.items())
        ]

    def take_new(self) -> list[Intent]:
        """Return the intents about which something was done or refused since the last call, and those that failed."""
        taken, self._new = self._new, []
        return taken

    def update(
        self,
        session: aiohttp.ClientSession,
        findings: Iterable[Finding],
        snapshots: Iterable[Snapshot],
        now: float,
        clock_moved: float = 0.0,
    ) -> None:
        """Follow the findings; call it in every pass in which an agent answers."""
        jobs = {snapshot.job_id: snapshot for snapshot in snapshots}
        if clock_moved:
            self._clock_set_at = now
            self._asked_since = {key: since + clock_moved for key, since in self._asked_since.items()}
        self._file.retry(now)
        for intent in [*self._intents.values()]:
            later = with_score_or_outcome(intent, jobs.get(intent.job_id), now)
            if intent.id not in self._tasks and later != intent:
                self._follow(later)
        asking = [*self._asking(findings, jobs, now)]
        self._stop_in_a_storm([intent for intent, rule, _ in asking if rule.mode == ENFORCE], now)
        for intent, rule, snapshot in asking:
            seconds = now - self._asked_since[intent.id, intent.ranks]
            if seconds >= rule.wait_seconds and (intent.capsule or seconds >= CAPSULE_SECONDS):
                self._decide(session, intent, rule, snapshot)

    async def close(self) -> None:
        """Stop asking agents."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _asking(
        self, findings: Iterable[Finding], jobs: Mapping[str, Snapshot], now: float
    ) -> Iterator[tuple[Intent, ActRule, Snapshot]]:
        """Yield the intents that findings ask for and that may be decided. Remember since when each is asked for."""
        earlier, self._asked_since = self._asked_since, {}
        for finding in findings:
            if (snapshot := jobs.get(finding.job_id)) is None:
                continue
            rule = self.policy.rule(finding, snapshot.reported_ranks[0].labels)
            intent = make_intent(rule, finding, snapshot, now) if rule else None
            if rule and intent and self._may_be_decided(intent):
                key = intent.id, intent.ranks
                self._asked_since[key] = earlier.get(key, now)
                yield intent, rule, snapshot

    def _may_be_decided(self, intent: Intent) -> bool:
        """Return True if the intent was not decided yet, or was refused so long ago that the reason may be gone."""
        earlier = self._intents.get(intent.id)
        if earlier is None:
            return True
        is_open = earlier.result == REFUSED and earlier.score not in (RIGHT, WRONG)
        return is_open and intent.time - earlier.time >= AGAIN_SECONDS

    def _stop_in_a_storm(self, asking: Sequence[Intent], now: float) -> None:
        """Stop all acts, until a person resets the stop, if faults of the last minute must have one common cause."""
        if asking and ALL not in self.stops and (why := storm_reason([*self._intents.values(), *asking], now)):
            stop(self._data_dir, ALL, why, "the hub", is_breaker=True)
            log.error("acts are stopped: %s", why)

    def _decide(self, session: aiohttp.ClientSession, intent: Intent, rule: ActRule, snapshot: Snapshot) -> None:
        """Record an intent, and carry it out if its rule and the guards allow it."""
        since_set = None if self._clock_set_at is None else intent.time - self._clock_set_at
        site = Site(self._intents.values(), scores(self._intents.values()), self.stop_reasons, since_set)
        needs_proof = rule.mode == ENFORCE and rule.act != CAPTURE
        if needs_proof and (unproven := unproven_reason(intent, rule.override, site)):
            intent = msgspec.structs.replace(intent, mode=OBSERVE, reasons=(unproven,))
        if intent.mode == OBSERVE:
            self._put(intent)
            return
        refused = tuple(refusals(intent, snapshot, site))
        if refused or self.error:
            reasons = refused or (f"the intent cannot be written: {self.error}",)
            self._put(msgspec.structs.replace(intent, result=REFUSED, reasons=reasons), notify=True)
        elif rule.act == CAPTURE and intent.capsule:
            self._put(msgspec.structs.replace(intent, result=ACTED, reasons=()))
        elif rule.act == CAPTURE:
            reasons = (f"the capsule was not written within {CAPSULE_SECONDS:.0f} s",)
            self._put(msgspec.structs.replace(intent, result=REFUSED, reasons=reasons))
        else:
            why = f"override: {rule.override}" if rule.override else "by its score"
            self._put(msgspec.structs.replace(intent, result=UNANSWERED, reasons=(why,)), count=False)
            if self.error is None:  # the intent is on disk
                self._tasks[intent.id] = asyncio.create_task(self._act(session, self._intents[intent.id], snapshot))

    async def _act(self, session: aiohttp.ClientSession, intent: Intent, snapshot: Snapshot) -> None:
        """Ask the agents for the act, and record their answers."""
        try:
            ranks = [r for r in snapshot.ranks if r.run_uid in intent.run_uids]
            links = links_of(self._links, ranks)
            allowed_by = "; ".join(intent.reasons)
            reason = f"rule {intent.rule} ({allowed_by}): {intent.cause} by {intent.proof}, finding {intent.finding}"

            async def ask(run_uid: str, rank: int) -> ActAnswer | str:
                """Return the answer of the agent of this rank, or why there is none."""
                if run_uid not in links:
                    return f"no agent reports rank {rank} any more"
                link, job_id = links[run_uid]
                request = ActRequest(
                    act=intent.act, job_id=job_id, rank=rank, run_uid=run_uid, intent=intent.id, reason=reason
                )
                try:
                    return await client.ask(session, link.url, endpoints.ACTS, request, ASK_SECONDS)
                except Unreachable as error:
                    return str(error)

            answers = await asyncio.gather(*(ask(r.run_uid, r.rank) for r in ranks))
            given = [answer for answer in answers if isinstance(answer, ActAnswer)]
            if any(answer.result == ACTED for answer in given):
                result = ACTED
            else:
                result = REFUSED if len(given) == len(answers) else UNANSWERED
            lines = (answer if isinstance(answer, str) else f"{answer.host}: {answer.reason}" for answer in answers)
            self._put(msgspec.structs.replace(intent, result=result, reasons=(*intent.reasons, *lines)), notify=True)
        finally:
            del self._tasks[intent.id]

    def _follow(self, intent: Intent) -> None:
        """Record the score or outcome of an intent. A rule whose act did not help is stopped until a reset."""
        if intent.outcome == DID_NOT_HELP:
            reason = f"{intent.act} on {intent.job_id} did not help"
            stop(self._data_dir, rule_stop(intent.rule), reason, "the hub", is_breaker=True)
        self._put(intent, notify=bool(intent.outcome), count=False)

    def _put(self, intent: Intent, notify: bool = False, count: bool = True) -> None:
        """Store an intent. `notify`: notify people of it, unless it is no news; `count`: count its result."""
        self._intents[intent.id] = intent
        self._file.append(msgspec.json.encode(intent) + b"\n")
        if count:
            self.counts[intent.act, intent.cause, intent.result] += 1
        news = intent.state, intent.reasons
        if notify and self._last_news.get(intent.id) != news:  # a repeated refusal is no news
            self._last_news[intent.id] = news
            self._new.append(intent)
            log.warning("%s on %s %s: %s", intent.act, intent.job_id, intent.result, "; ".join(intent.reasons))
        while len(self._intents) > MAX_INTENTS:
            oldest = next(iter(self._intents))
            del self._intents[oldest]
            self._last_news.pop(oldest, None)

    def _read(self, lines: Sequence[bytes]) -> None:
        """Take the intents of earlier hubs."""
        recorded, self._intents = self._intents, {}
        for line in lines:
            try:
                intent = msgspec.json.decode(line, type=Intent)
            except msgspec.DecodeError:
                self._unreadable.append(line)
            else:
                self._intents[intent.id] = intent
        self._intents |= recorded

    def _lines(self) -> Iterator[bytes]:
        yield from (line + b"\n" for line in self._unreadable)
        yield from (msgspec.json.encode(intent) + b"\n" for intent in self._intents.values())


__all__ = ["Intents", "Policy", "read_policy"]
