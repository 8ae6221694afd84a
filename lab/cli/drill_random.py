"""`zmon drill --random` and `--simulated`: play random compositions of faults, in real jobs or in the simulator."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec
from rich.console import Console

from lab.drills import history, random_session, random_verdict, report, tally
from lab.drills.result import NEVER
from lab.drills.score import DrillRow
from lab.simulator.session import is_as_expected, line, outcome, play_many
from lab.simulator.verdict import Play
from zmon.hub.acts import read_policy
from zmon.schema.names import SCHEMA


def play_simulated(seed: int, first: int, num_plays: int, as_json: bool, act_file: Path | None) -> int:
    """Play `num_plays` compositions from number `first` on in the simulator, and print tables. Return the exit code."""
    policy = read_policy(act_file) if act_file else None
    stderr = Console(stderr=True)
    stderr.print(f"seed {seed}, compositions {first} to {first + num_plays - 1}", highlight=False)

    def show(play: Play) -> None:
        if not is_as_expected(play):
            stderr.print(line(play), highlight=False, markup=False, soft_wrap=True)

    plays = play_many(seed, first, num_plays, show, policy)
    outcomes = [outcome(play) for play in plays]
    if as_json:
        click.echo(msgspec.json.encode({"schema": SCHEMA, "seed": seed, "plays": plays}).decode())
    else:
        click.echo(tally.markdown(outcomes))
        if policy:
            click.echo(f"\n{sum(play.num_acts for play in plays)} acts, {_num_wrong_acts(plays)} wrong")
    return _exit_code(outcomes)


def play_randomly(seed: int, num_plays: int, resume: bool, data_dir: Path, as_json: bool, policy: Path | None) -> int:
    """Play the first `num_plays` compositions of real jobs, and print tables. Return the exit code.

    `resume`: continue the last session of this kind. The truth about each fault is in a file beside the results.
    """
    stderr = Console(stderr=True)
    if resume:
        session = history.newest(data_dir, "random")
    else:
        act_file = str(policy) if policy else None
        head = history.Head(seed=seed, repeats=num_plays, drills=(), act_file=act_file)
        session = history.begin(data_dir, head, "random")
    seed = session.head.seed
    truth = session.path.with_suffix(".truth")
    stderr.print(f"seed {seed}, results in {session.path}, truth in {truth}", highlight=False, soft_wrap=True)

    def record(row: DrillRow) -> None:
        session.add(row)
        result = random_verdict.result_of(row)
        stderr.print(f"{row.repeat} {result}: {report.line(row)}", highlight=False, markup=False, soft_wrap=True)

    directory = Path(tempfile.mkdtemp(prefix="zmon-drill-"))
    try:
        done = {row.repeat for row in session.rows}
        random_session.play_random(seed, num_plays, done, directory, truth, record, session.head.policy)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    outcomes = [random_verdict.outcome(row) for row in session.rows]
    if as_json:
        click.echo(msgspec.json.encode(report.as_json(session.rows, seed=seed)).decode())
    else:
        click.echo(tally.markdown(outcomes))
        if session.head.policy:
            click.echo(f"\n{sum(len(row.acts) for row in session.rows)} acts, {_num_wrong_acts(session.rows)} wrong")
        click.echo("".join(f"\n- {line}" for row in session.rows if (line := random_verdict.deviation(row))))
    return _exit_code(outcomes)


def _num_wrong_acts(plays: Iterable[Play | DrillRow]) -> int:
    return sum(len(play.wrong_acts) for play in plays)


def _exit_code(outcomes: Iterable[tally.Outcome]) -> int:
    """Return 1 if a result must not happen, or if a play failed."""
    return int(any(outcome.result in (*NEVER, "broken") for outcome in outcomes))
