"""`zmon drill`: inject faults into real jobs and score the diagnosis."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click
import msgspec
from rich.console import Console

from lab.cli.drill_random import play_randomly, play_simulated
from lab.drills import history, report
from lab.drills.draw import Pinned
from lab.drills.drill import Drill
from lab.drills.figures import false_pages_per_hour, shortfalls
from lab.drills.matrix import ALL, WATCHED
from lab.drills.score import DrillRow
from lab.drills.session import play_all, select_drills, soak
from lab.stage import JobKind
from zmon.cli.options import data_dir_option, json_option
from zmon.errors import UsageError


@click.command()
@click.argument("names", nargs=-1, metavar="NAME…")
@click.option("--all", "every", is_flag=True, help="Play all drills.")
@click.option("--list", "listing", is_flag=True, help="List all drills and exit.")
@click.option(
    "--repeats", type=click.IntRange(1, 1000), default=1, show_default=True, help="Number of plays of each drill."
)
@click.option(
    "--resume", is_flag=True, help="Continue the last session, or that of --random, and skip the drills that it played."
)
@click.option(
    "--soak",
    "soak_seconds",
    type=click.FloatRange(min=1),
    help="Run only drills without a fault to report, for this many seconds.",
)
@click.option(
    "--random", "randoms", type=click.IntRange(min=1), help="Play this many random compositions of real jobs."
)
@click.option(
    "--watch", is_flag=True, help="Play the drills of one host that strike no part of zmon, under zmon watch alone."
)
@click.option(
    "--act",
    "policy",
    type=click.Path(path_type=Path, dir_okay=False, exists=True, resolve_path=True),
    metavar="FILE",
    help="Let zmon act by this policy, and count the acts about somebody who is not to blame.",
)
@click.option("--simulated", type=click.IntRange(min=1), help="Play this many random compositions in a simulator.")
@click.option(
    "--first",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of the first composition of --simulated; the seed and this number play one again.",
)
@click.option("--seed", type=int, help="Seed of the random choices. The same seed makes the same choices.")
@click.option(
    "--kind", type=click.Choice(["trainer", "ddp", "plain"]), help="Kind of job. Used only by drills that support it."
)
@click.option("--ranks", type=int, help="Number of ranks. Used only by drills that support it.")
@click.option("--step-seconds", type=click.FloatRange(0.001, 60), help="Approximate step time of the jobs.")
@click.option("--markdown", is_flag=True, help="Print the results as Markdown tables.")
@json_option
@data_dir_option
def drill(
    names: tuple[str, ...],
    every: bool,
    listing: bool,
    repeats: int,
    resume: bool,
    soak_seconds: float | None,
    randoms: int | None,
    watch: bool,
    policy: Path | None,
    simulated: int | None,
    first: int,
    seed: int | None,
    kind: JobKind | None,
    ranks: int | None,
    step_seconds: float | None,
    markdown: bool,
    as_json: bool,
    data_dir: Path,
) -> None:
    """Inject faults into real jobs and check the diagnosis.

    Exit codes: 0 all results are as expected; 1 some are not, or the median time to a finding that is detected by a
    lock, process state or link carrier exceeds its target; 2 misuse. A drill that cannot be played on this machine
    counts as a failure if it was given by name; with --all it is listed as not played.
    """
    if listing:
        Console().print(report.drill_list(ALL))
        return
    num_selections = sum(map(bool, (names, every, resume and not randoms, soak_seconds, randoms, simulated)))
    has_own_stage = bool(soak_seconds or randoms or simulated)
    _check_usage(num_selections, watch=watch, has_own_stage=has_own_stage, acts=policy is not None)
    seed = int(time.time()) if seed is None else seed
    if simulated is not None:
        sys.exit(play_simulated(seed, first, simulated, as_json, policy))
    _end_in_order()
    if randoms is not None:
        sys.exit(play_randomly(seed, randoms, resume, data_dir, as_json, policy))
    drills = WATCHED if watch else ALL
    session_kind = "watch" if watch else "soak" if soak_seconds else "drills"
    if resume:
        session = history.newest(data_dir, session_kind)
    else:
        head = history.Head(
            seed=seed,
            repeats=repeats,
            drills=tuple(drill.name for drill in (select_drills(drills, names) if names else drills)),
            pinned=Pinned(kind, ranks, step_seconds),
            act_file=str(policy) if policy else None,
        )
        session = history.begin(data_dir, head, session_kind)
    stderr = Console(stderr=True)
    stderr.print(f"seed {session.head.seed}, results in {session.path}", highlight=False, soft_wrap=True)
    soaked_seconds = _play(session, drills, soak_seconds, watch, stderr)
    _print_results(session, soaked_seconds, markdown, as_json)
    unplayed = {row.drill: row.skipped for row in session.rows if row.skipped}
    if unplayed:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in unplayed.items())
        stderr.print(f"{len(unplayed)} not played: {reasons}", highlight=False, markup=False, soft_wrap=True)
    succeeded = _succeeded(session.rows, by_name=len(session.head.drills) < len(drills))
    sys.exit(0 if succeeded and not shortfalls(session.rows) else 1)


def _check_usage(num_selections: int, *, watch: bool, has_own_stage: bool, acts: bool) -> None:
    """Raise UsageError unless the drills are selected in one way, and the options fit together."""
    if num_selections != 1:
        what = "drills are selected in more than one way" if num_selections else "no drill is selected"
        options = "--all, --resume, --soak, --random or --simulated"
        raise UsageError(what, "", f"Name drills (zmon drill --list), or use one of {options}")
    if watch and has_own_stage:
        raise UsageError(
            "--watch plays drills by name", "--soak, --random and --simulated have stages of their own", "Leave out one"
        )
    if watch and acts:
        raise UsageError("--act is for a stack", "zmon watch never acts", "Leave out one")


def _play(
    session: history.Session, drills: Sequence[Drill], soak_seconds: float | None, watch: bool, stderr: Console
) -> float | None:
    """Play the drills of a session that are not done yet, or a soak. Return the elapsed seconds of a soak, else None.

    The logs stay if a result is not as expected, or if the session is interrupted.
    """

    def record(row: DrillRow) -> None:
        session.add(row)
        stderr.print(report.line(row), highlight=False, markup=False, soft_wrap=True)

    directory = Path(tempfile.mkdtemp(prefix="zmon-drill-"))
    head = session.head
    soaked_seconds: float | None = None
    try:
        if soak_seconds is not None:
            soaked_seconds = soak(ALL, soak_seconds, head, directory, record)
        else:
            play_all(select_drills(drills, head.drills), head, session.done, directory, record, watch)
    except BaseException:  # also Ctrl-C
        _clean_up(directory, stderr, keep=True)
        raise
    _clean_up(directory, stderr, keep=not all(row.as_expected or row.skipped for row in session.rows))
    return soaked_seconds


def _print_results(session: history.Session, soaked_seconds: float | None, markdown: bool, as_json: bool) -> None:
    hourly = None if soaked_seconds is None else false_pages_per_hour(session.rows, soaked_seconds)
    if as_json:
        figures = {"soak_seconds": soaked_seconds, "false_pages_per_hour": hourly} if soaked_seconds is not None else {}
        click.echo(msgspec.json.encode(report.as_json(session.rows, seed=session.head.seed, **figures)).decode())
        return
    if markdown:
        click.echo(report.markdown(session.rows))
    else:
        Console().print(report.tables(session.rows))
    if hourly is not None:
        click.echo(f"{hourly:.2f} false pages per hour")


def _succeeded(rows: Sequence[DrillRow], by_name: bool) -> bool:
    """Return True if all results are as expected.

    A skipped drill is a failure if the drills were given by name (`by_name`), or if nothing else was played.
    """
    played = [row for row in rows if not row.skipped]
    if len(played) < len(rows) and (by_name or not played):
        return False
    return all(row.as_expected for row in played)


def _clean_up(directory: Path, stderr: Console, keep: bool) -> None:
    """Remove the directory of the stages, or print its path if `keep` is true and it has logs."""
    if keep and any(path.is_file() for path in directory.rglob("*")):
        stderr.print(f"logs are kept in {directory}", highlight=False, soft_wrap=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)


def _end_in_order() -> None:
    """Let the first signal end the jobs and the stack, and ignore further signals until they have ended."""
    candidates = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handled = [number for number in candidates if signal.getsignal(number) != signal.SIG_IGN]

    def end(received: int, frame: FrameType | None) -> None:
        for number in handled:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in handled:
        signal.signal(number, end)
