"""The terminal output of `zmon act`: scores by cause, and intents with what became of them."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from zmon.format import counted, duration
from zmon.schema.act import DID_NOT_HELP, RIGHT, STEPS_AGAIN, WRONG, Intent
from zmon.schema.api import IntentList

_STYLES = {RIGHT: "green", STEPS_AGAIN: "green", WRONG: "bold red", DID_NOT_HELP: "bold red"}
_NO_POLICY = Text("the hub runs without --act: it intends nothing (docs/act.md)")


def score_text(answer: IntentList) -> RenderableType:
    """Return the score of each cause, and what is stopped."""
    if not answer.has_policy:
        return _NO_POLICY
    table = Table(box=None, pad_edge=False)
    for column in ("cause", "right", "wrong", "unclear", "open", ""):
        table.add_column(column, justify="left" if column in ("cause", "") else "right")
    for score in answer.scores:
        state = "may act" if score.is_proven else "observes"
        numbers = map(str, (score.right, score.wrong, score.unclear, score.open))
        table.add_row(score.cause, *numbers, state)
    return Group(table if answer.scores else Text("no rule has asked for an act yet"), *_stops(answer))


def intents_text(answer: IntentList) -> RenderableType:
    """Return the intents, the newest first."""
    if not answer.has_policy:
        return _NO_POLICY
    parts: list[RenderableType] = [part for intent in answer.intents for part in _intent(intent)]
    if left_out := answer.num_intents - len(answer.intents):
        parts.append(Text(f"{counted(left_out, 'earlier intent')} left out: --limit", style="dim"))
    return Group(*(parts or [Text("no rule has asked for an act yet")]), *_stops(answer))


def _intent(intent: Intent) -> tuple[RenderableType, ...]:
    followed = intent.outcome or intent.score
    state = intent.result + (f", {followed.replace('_', ' ')}" if followed else "")
    seconds = f" {duration(intent.outcome_seconds)} after the onset" if intent.outcome_seconds is not None else ""
    head = Text.assemble(
        f"{datetime.fromtimestamp(intent.time, UTC):%d %b %H:%M:%S} UTC  ",
        (intent.job_id, "bold"),
        f"  {intent.act.replace('_', ' ')}, {intent.who}: ",
        (state, _STYLES.get(followed, "")),
        seconds,
    )
    reason = f"rule {intent.rule}, {intent.cause} by {intent.proof.replace('_', ' ')}, finding {intent.finding}"
    return head, *(Padding(Text(line), (0, 0, 0, 4)) for line in (reason, *intent.reasons))


def _stops(answer: IntentList) -> list[RenderableType]:
    return [Text(f"stopped: {name}: {reason}", style="bold red") for name, reason in answer.stops.items()]
