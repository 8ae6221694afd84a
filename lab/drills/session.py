"""Play many drills, one after the other, on one running stack for each stage. A row is passed on after its play."""

from __future__ import annotations

import importlib.util
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.drills.draw import draw_job, pin
from lab.drills.drill import Drill, StageName
from lab.drills.history import Head
from lab.drills.play import play
from lab.drills.score import DrillRow
from lab.stage import Stage
from lab.stage.host import OneHost
from lab.stage.hosts import FourHosts
from lab.stage.watched import Watched
from zmon.errors import PartFailed, UsageError, install_command

STAGES: Mapping[StageName, Callable[[Path, Path | None], Stage]] = {
    "host": OneHost,
    "hosts": FourHosts,
    "watch": Watched,
}
OnRow = Callable[[DrillRow], None]  # called after each play


def play_all(
    drills: Sequence[Drill],
    head: Head,
    done: Collection[tuple[str, int]],
    folder: Path,
    on_row: OnRow,
    watch: bool = False,
) -> None:
    """Play the drills that are not done yet, stage by stage; `watch`: all of them under `zmon watch`.

    Raises PartFailed if a stage cannot be started.
    """
    check_installed()
    for stage_name in STAGES:
        plays = [
            (drill, repeat)
            for repeat in range(head.repeats)
            for drill in drills
            if ("watch" if watch else drill.stage) == stage_name and (drill.name, repeat) not in done
        ]
        if not plays:
            continue
        with ExitStack() as stack:
            stage: Stage | None = None
            for drill, repeat in plays:
                draw = pin(drill, draw_job(drill, repeat, head.seed), head.pinned)
                if stage is None and drill.unavailable() is None:
                    stage = stack.enter_context(open_stage(stage_name, folder, head.policy))
                on_row(play(drill, stage, draw))


def soak(drills: Sequence[Drill], seconds: float, head: Head, folder: Path, on_row: OnRow) -> float:
    """Play random quiet drills until the time is over; return the elapsed seconds.

    Drills that cannot be played on this machine are left out.
    """
    check_installed()
    generator = random.Random(head.seed)
    quiet = [drill for drill in drills if drill.quiet and drill.unavailable() is None]
    with ExitStack() as stack:
        names = sorted({drill.stage for drill in quiet})
        stages = {name: stack.enter_context(open_stage(name, folder, head.policy)) for name in names}
        begin = time.monotonic()
        repeat = 0
        while time.monotonic() - begin < seconds:
            drill = generator.choice(quiet)
            draw = pin(drill, draw_job(drill, repeat, head.seed), head.pinned)
            on_row(play(drill, stages[drill.stage], draw))
            repeat += 1
        return time.monotonic() - begin


@contextmanager
def open_stage(name: StageName, folder: Path, policy: Path | None = None) -> Iterator[Stage]:
    """Start a stage in its own directory, and close it at the end; with a policy zmon acts."""
    directory = folder / name
    directory.mkdir(parents=True)
    stage = STAGES[name](directory, policy)
    try:
        yield stage
    finally:
        stage.close()


def check_installed() -> None:
    """Raise PartFailed unless the packages that the drills' jobs need are installed."""
    missing = [name for name in ("torch", "trainer") if importlib.util.find_spec(name) is None]
    if missing:
        raise PartFailed(
            f"{missing[0]} is not installed", "drills strike real jobs", f"Run {install_command('trainer')}"
        )


def select_drills(drills: Sequence[Drill], names: Collection[str]) -> tuple[Drill, ...]:
    """Return the drills with these names. Raises UsageError for an unknown name."""
    known = {drill.name: drill for drill in drills}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no drill {name!r}", "it is misspelt", "zmon drill --list lists all drills")
    return tuple(known[name] for name in names)
