"""The terminal output of `zmon act` and `zmon ends`: intents with their outcome, scores, and how launches ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from zmon.cli.render import number_columns
from zmon.format import counted, duration
from zmon.schema.act import DID_NOT_HELP, RIGHT, STEPS_AGAIN, WRONG, Intent
from zmon.schema.api import EndList, IntentList
from zmon.schema.ended_launch import CANCELLED, DONE, EndedLaunch

_INTENT_STYLES = {RIGHT: "green", STEPS_AGAIN: "green", WRONG: "bold red", DID_NOT_HELP: "bold red"}
_END_STYLES = {DONE: "green", CANCELLED: "dim"}  # by outcome; all other outcomes are bold red
_NO_POLICY = Text("the hub runs without --act: it intends nothing (docs/act.md)")


def score_text(answer: IntentList) -> RenderableType:
    """Return the score of each cause, and what is stopped."""
    if not answer.has_policy:
        return _NO_POLICY
    table = Table("cause", *number_columns("right", "wrong", "unclear", "open"), "", box=None, pad_edge=False)
    for score in answer.scores:
        state = "may act" if score.is_proven else "observes"
        numbers = map(str, (score.right, score.wrong, score.unclear, score.open))
        table.add_row(score.cause, *numbers, state)
    return Group(table if answer.scores else Text("no rule has asked for an act yet"), *_stops(answer))


def intents_text(answer: IntentList, job_id: str | None) -> RenderableType:
    """Return the intents about all jobs, or about one, the newest first."""
    if not answer.has_policy:
        return _NO_POLICY
    parts = [part for intent in answer.intents for part in _intent(intent)]
    parts += _left_out(answer.num_intents - len(answer.intents), "earlier intent")
    none = Text(f"no rule has asked for an act{f' on job {job_id}' if job_id else ''} yet")
    return Group(*(parts or [none]), *_stops(answer))


def _left_out(number: int, what: str) -> list[RenderableType]:
    return [Text(f"{counted(number, what)} left out: --limit", style="dim")] if number else []


def _moment(unix_seconds: float) -> str:
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%d %b %H:%M:%S} UTC  "


def _block(head: Text, lines: Iterable[Text]) -> tuple[RenderableType, ...]:
    """Return a line with further lines below it, indented."""
    return head, *(Padding(line, (0, 0, 0, 4)) for line in lines)


def _intent(intent: Intent) -> tuple[RenderableType, ...]:
    """Return what an intent wanted to do and what followed, and its reasons below."""
    followed = intent.outcome or intent.score
    state = intent.result + (f", {followed.replace('_', ' ')}" if followed else "")
    seconds = f" {duration(intent.outcome_seconds)} after the onset" if intent.outcome_seconds is not None else ""
    head = Text.assemble(
        _moment(intent.time),
        (intent.job_id, "bold"),
        f"  {intent.act.replace('_', ' ')}, {intent.who}: ",
        (state, _INTENT_STYLES.get(followed, "")),
        seconds,
    )
    reason = f"rule {intent.rule}, {intent.cause} by {intent.proof.replace('_', ' ')}, finding {intent.finding}"
    return _block(head, map(Text, (reason, *intent.reasons)))


def _stops(answer: IntentList) -> list[RenderableType]:
    return [Text(f"stopped: {name}: {reason}", style="bold red") for name, reason in answer.stops.items()]


def ends_text(answer: EndList, job_id: str | None, days: float | None) -> RenderableType:
    """Return the ends of all jobs, or of one, the newest first. `days`: only ends of these last days were asked for."""
    if not answer.ends:
        within = f" in that time (--days {days:g})" if days else ""
        return Text(f"no launch{f' of job {job_id}' if job_id else ''} has ended{within}")
    parts = [part for end in answer.ends for part in _end(end)]
    return Group(*parts, *_left_out(answer.num_ends - len(answer.ends), "earlier end"))


def _end(end: EndedLaunch) -> tuple[RenderableType, ...]:
    outcome = (end.outcome.replace("_", " "), _END_STYLES.get(end.outcome, "bold red"))
    steps = ", before its first step" if end.first_step is None else f", steps {end.steps_text}"
    after = f" after {duration(end.seconds)}{steps}"
    head = Text.assemble(_moment(end.ended), (end.job_id, "bold"), "  ", outcome, after)
    next_step = [Text.assemble(("next  ", "dim"), end.next_step)] if end.next_step else []
    return _block(head, [Text(end.reason), *next_step])
