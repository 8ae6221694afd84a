"""`zmon drill --simulated`: random compositions against the detectors alone, without a job."""

from __future__ import annotations

import click
import msgspec
from rich.console import Console

from zmon.drills import tally
from zmon.drills.simulator.session import as_it_should_be, line, outcome, play_many
from zmon.drills.simulator.verdict import Play
from zmon.schema.names import SCHEMA


def play_simulated(seed: int, first: int, number: int, as_json: bool) -> int:
    """Play and print the tables; return 1 if a name was wrong, a death silent or a page false."""
    stderr = Console(stderr=True)
    stderr.print(f"seed {seed}, compositions {first} to {first + number - 1}", highlight=False)

    def show(play: Play) -> None:
        if not as_it_should_be(play):
            stderr.print(line(play), highlight=False, markup=False, soft_wrap=True)

    plays = play_many(seed, first, number, show)
    outcomes = [outcome(play) for play in plays]
    if as_json:
        click.echo(msgspec.json.encode({"schema": SCHEMA, "seed": seed, "plays": plays}).decode())
    else:
        click.echo(tally.markdown(outcomes))
    return int(any(each.verdict in (*tally.NEVER, "broken") for each in outcomes))
