"""The times of recoveries (onset → finding → critical → act → steps again) for eight faults in four kinds of jobs.

    python -m bench.recovery.matrix [--cells PATTERN…] [--repeats N] [--resume] [--without-acts]

A cell is a drill under torchrun with restarts, as `zmon drill` plays it, with 2 or 4 ranks and one of two step lengths.
All cells use one running stack. The name of a cell is FAULT/JOB/RANKS/STEP, and a pattern may have asterisks. Without
acts, a job recovers only from the faults after which torchrun itself starts it again. Each repeat of each of the 128
cells takes 1 to 2 minutes; --resume goes on with the newest session.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.recovery.cells import FAULTS, Cell, cells
from bench.recovery.policy import POLICY
from bench.rows import load_line, parser_of
from lab.drills import history, report
from lab.drills.figures import spread
from lab.drills.play import play
from lab.drills.score import DrillRow
from lab.drills.session import open_stage
from zmon.errors import ZmonError

_HEADS = (
    "fault", "job", "ranks", "step", "plays", "onset → finding", "→ critical", "→ act", "→ steps again", "p95",
    "critical → steps again, p95", "by", "not again", "wrong acts",
)  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Play the cells and print the tables; return 1 if an act was wrong."""
    parser = parser_of(__doc__)
    parser.add_argument("--cells", nargs="+", default=["*"], metavar="PATTERN", help="only these cells (*)")
    parser.add_argument("--repeats", type=int, default=5, help="plays of each cell (5)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the struck ranks and moments (1)")
    parser.add_argument("--resume", action="store_true", help="go on with the newest session in the directory")
    parser.add_argument("--without-acts", action="store_true", help="zmon watches and does nothing")
    parser.add_argument("--data-dir", type=Path, default=Path("recovery"), help="directory of the sessions (recovery)")
    options = parser.parse_args(words)
    try:
        session = _session(options)
        with tempfile.TemporaryDirectory(prefix="zmon-bench-") as folder:
            _play(session, Path(folder))
    except ZmonError as error:
        print(error, file=sys.stderr)
        return 1
    print(*lines(session.rows), sep="\n")
    print(load_line())
    return int(any(row.wrong_acts for row in session.rows))


def _session(options: argparse.Namespace) -> history.Session:
    """Return the newest session to be resumed, or a new one. Its policy is a file in the directory of the sessions."""
    if options.resume:
        return history.newest(options.data_dir, "recovery")
    names = tuple(map(str, cells(options.cells)))
    act_file: str | None = None
    if not options.without_acts:
        options.data_dir.mkdir(parents=True, exist_ok=True)
        policy = (options.data_dir / "policy.yaml").absolute()
        policy.write_text(POLICY)
        act_file = str(policy)
    head = history.Head(seed=options.seed, repeats=options.repeats, drills=names, act_file=act_file)
    return history.begin(options.data_dir, head, "recovery")


def _play(session: history.Session, folder: Path) -> None:
    head = session.head
    turns = [
        (cell, repeat)
        for repeat in range(head.repeats)
        for cell in cells(head.drills)
        if (str(cell), repeat) not in session.done
    ]
    if not turns:
        return
    with open_stage("host", folder, head.policy) as stage:
        for cell, repeat in turns:
            session.add(play(cell.drill, stage, cell.draw(repeat, head.seed)))
            print(_words(session.rows[-1]), file=sys.stderr, flush=True)


def _words(row: DrillRow) -> str:
    again = "no steps again" if row.again_seconds is None else f"steps again after {row.again_seconds:.1f} s"
    return f"{report.line(row)}; {again}, {len(row.acts)} acts"


def lines(rows: Sequence[DrillRow]) -> Iterator[str]:
    """Yield a table of the cells in Markdown, with a line for all cells of each fault."""
    yield f"| {' | '.join(_HEADS)} |"
    yield "|" + "-|" * len(_HEADS)
    for fault, spec in FAULTS.items():
        played = [cell for cell in cells([f"{fault}/*"]) if any(row.drill == str(cell) for row in rows)]
        for cell in played:
            yield _line(cell, [row for row in rows if row.drill == str(cell)], spec.needs_act)
        if len(played) > 1:
            names = set(map(str, played))
            yield _line(fault, [row for row in rows if row.drill in names], spec.needs_act)
    if broken := [row for row in rows if row.broken or row.skipped]:
        yield ""
        yield from (f"- {row.drill}, repeat {row.repeat}: {row.broken or row.skipped}" for row in broken)


def _line(cell: Cell | str, rows: Sequence[DrillRow], needs_act: bool) -> str:
    """Return the line of a cell, or of all cells of a fault, which is then its name."""
    if isinstance(cell, str):
        name = (cell, "all", "", "")
    else:
        name = (cell.fault, cell.job, str(cell.ranks), f"{cell.step_seconds * 1000:g} ms")
    played = [row for row in rows if not (row.broken or row.skipped)]
    again = [row.again_seconds for row in played]
    critical = [_critical(row) for row in played]
    critical_to_again = [
        again_seconds - critical_seconds
        for again_seconds, critical_seconds in zip(again, critical, strict=True)
        if again_seconds is not None and critical_seconds is not None
    ]
    columns = ([row.finding_seconds for row in played], critical, [_act(row) for row in played], again)
    medians = ["" if (known := spread(values)) is None else f"{known.p50:.2f}" for values in columns]
    p95 = ["" if (known := spread(values)) is None else f"{known.p95:.2f}" for values in (again, critical_to_again)]
    mended_by = "act" if needs_act else "torchrun"
    num_not_again = sum(seconds is None for seconds in again)
    num_wrong_acts = sum(len(row.wrong_acts) for row in rows)
    cells = (*name, str(len(played)), *medians, *p95, mended_by, str(num_not_again), str(num_wrong_acts))
    return f"| {' | '.join(cells)} |"


def _critical(row: DrillRow) -> float | None:
    """Return the seconds from the onset to the critical finding; None if there was none.

    A finding that a process state proves is critical from the start, or never.
    """
    if row.critical_target_seconds is not None:
        return row.critical_seconds
    return row.finding_seconds if row.severity == "critical" else None


def _act(row: DrillRow) -> float | None:
    """Return the seconds from the onset to the first act; None if there was none."""
    return row.acts[0].time - row.truth[0].time if row.acts else None


if __name__ == "__main__":
    sys.exit(main())
