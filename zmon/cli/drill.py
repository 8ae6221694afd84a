"""`zmon drill`: cause a fault in a real job, and see who is blamed, for what, and how fast."""

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

from zmon.cli.options import data_dir_option
from zmon.drills import ALL, history, report
from zmon.drills.draw import Pinned
from zmon.drills.score import DrillRow, false_pages_per_hour, shortfalls
from zmon.drills.session import play_all, select_drills, soak
from zmon.drills.stage import JobKind
from zmon.errors import UsageError


@click.command()
@click.argument("names", nargs=-1, metavar="NAME…")
@click.option("--all", "every", is_flag=True, help="All of them.")
@click.option("--list", "listing", is_flag=True, help="Name them all, and end.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=1, show_default=True, help="Times to play each.")
@click.option("--resume", is_flag=True, help="Go on with the last session: what it has played is not played again.")
@click.option("--soak", "soak_seconds", type=click.FloatRange(min=1), help="Mix the quiet ones for so many seconds.")
@click.option("--seed", type=int, help="Repeat the draws of another session.")
@click.option("--kind", type=click.Choice(["trainer", "ddp", "plain"]), help="One kind of job, where the drill has it.")
@click.option("--ranks", type=int, help="So many ranks, where the drill can be played with them.")
@click.option("--step-seconds", type=click.FloatRange(0.001, 60), help="Steps of about this length.")
@click.option("--markdown", is_flag=True, help="The outcome as tables for a document.")
@click.option("--json", "as_json", is_flag=True)
@data_dir_option
def drill(
    names: tuple[str, ...],
    every: bool,
    listing: bool,
    repeats: int,
    resume: bool,
    soak_seconds: float | None,
    seed: int | None,
    kind: JobKind | None,
    ranks: int | None,
    step_seconds: float | None,
    markdown: bool,
    as_json: bool,
    data_dir: Path,
) -> None:
    """Cause faults in real jobs and check who is blamed. Exit code 0: all as expected, 1: not.

    What cannot be played here is no success: exit code 1 where it was asked for by name, and said where all were.
    """
    if listing:
        Console().print(report.drill_list(ALL))
        return
    if sum(map(bool, (names, every, resume, soak_seconds))) != 1:
        raise UsageError("what is to be played?", "", "Name drills (zmon drill --list), or --all, --resume or --soak")
    _end_in_order()
    session = history.newest(data_dir) if resume else None
    if session is None:
        wanted = [d.name for d in select_drills(ALL, names)] if names else [d.name for d in ALL]
        seed = int(time.time()) if seed is None else seed
        pinned = Pinned(kind, ranks, step_seconds)
        head = history.Head(seed=seed, repeats=repeats, drills=tuple(wanted), pinned=pinned)
        session = history.begin(data_dir, head, "soak" if soak_seconds else "drills")
    head, say = session.head, Console(stderr=True)
    say.print(f"seed {head.seed}, rows in {session.path}", highlight=False, soft_wrap=True)

    def played(row: DrillRow) -> None:
        session.add(row)
        say.print(report.line(row), highlight=False, markup=False, soft_wrap=True)

    folder = Path(tempfile.mkdtemp(prefix="zmon-drill-"))
    took: float | None = None
    try:
        if soak_seconds is not None:
            took = soak(ALL, soak_seconds, head.seed, head.pinned, folder, played)
        else:
            play_all(
                select_drills(ALL, head.drills), head.repeats, head.seed, head.pinned, session.done, folder, played
            )
    except BaseException:
        _leave(folder, say, keep=True)
        raise
    _leave(folder, say, keep=not all(row.as_expected or row.skipped for row in session.rows))
    hourly = None if took is None else false_pages_per_hour(session.rows, took)
    if as_json:
        more = {} if took is None else {"soak_seconds": took, "false_pages_per_hour": hourly}
        click.echo(msgspec.json.encode(report.as_json(session.rows, seed=head.seed, **more)).decode())
    else:
        if markdown:
            click.echo(report.markdown(session.rows))
        else:
            Console().print(report.tables(session.rows))
        if hourly is not None:
            click.echo(f"{hourly:.2f} false pages per hour")
    unplayed = {row.drill: row.skipped for row in session.rows if row.skipped}
    if unplayed:
        whys = "; ".join(f"{name}: {why}" for name, why in unplayed.items())
        say.print(f"{len(unplayed)} not played: {whys}", highlight=False, markup=False, soft_wrap=True)
    good = _as_asked(session.rows, by_name=len(head.drills) < len(ALL))
    sys.exit(0 if good and not shortfalls(session.rows) else 1)


def _as_asked(rows: Sequence[DrillRow], by_name: bool) -> bool:
    """Whether all is as expected. What was skipped is not, where each was asked for or nothing else was played."""
    played = [row for row in rows if not row.skipped]
    if len(played) < len(rows) and (by_name or not played):
        return False
    return all(row.as_expected for row in played)


def _leave(folder: Path, say: Console, keep: bool) -> None:
    """Remove the folder of the stages; `keep` it where somebody has to read the logs in it."""
    if keep and any(path.is_file() for path in folder.rglob("*")):
        say.print(f"logs are kept in {folder}", highlight=False, soft_wrap=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _end_in_order() -> None:
    """Whoever asks us to end, and however often: the jobs and the stack are ended first, undisturbed."""
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]

    def end(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, end)
