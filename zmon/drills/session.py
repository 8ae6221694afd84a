"""Play many drills, one after the other, on one standing stack for each stage; every row is kept as it comes."""

from __future__ import annotations

import importlib.util
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from zmon.drills.casting import Pinned, cast, pin
from zmon.drills.drill import Drill, StageName
from zmon.drills.host import OneHost
from zmon.drills.hosts import FourHosts
from zmon.drills.play import play
from zmon.drills.score import DrillRow
from zmon.drills.stage import Stage
from zmon.errors import PartFailed, UsageError

STAGES: Mapping[StageName, Callable[[Path], Stage]] = {"host": OneHost, "hosts": FourHosts}
Played = Callable[[DrillRow], None]


def play_all(
    drills: Sequence[Drill],
    repeats: int,
    seed: int,
    pinned: Pinned,
    done: Collection[tuple[str, int]],
    folder: Path,
    played: Played,
) -> None:
    """All that are not done yet, a stage at a time. Raises PartFailed where a stage cannot be built."""
    check_installed()
    for stage_name in STAGES:
        todo = [
            (drill, repeat)
            for repeat in range(repeats)
            for drill in drills
            if drill.stage == stage_name and (drill.name, repeat) not in done
        ]
        if not todo:
            continue
        with ExitStack() as stack:
            stage: Stage | None = None
            for drill, repeat in todo:
                part = pin(drill, cast(drill, repeat, seed), pinned)
                if stage is None and drill.unavailable() is None:
                    stage = stack.enter_context(standing(stage_name, folder))
                played(play(drill, stage, part))


def soak(drills: Sequence[Drill], seconds: float, seed: int, pinned: Pinned, folder: Path, played: Played) -> float:
    """Quiet drills that can be played here, drawn at random, until the time is over; how long it took, in seconds."""
    check_installed()
    draw, quiet = random.Random(seed), [drill for drill in drills if drill.quiet and drill.unavailable() is None]
    with ExitStack() as stack:
        stages = {name: stack.enter_context(standing(name, folder)) for name in sorted({d.stage for d in quiet})}
        begin, repeat = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            drill = draw.choice(quiet)
            played(play(drill, stages[drill.stage], pin(drill, cast(drill, repeat, seed), pinned)))
            repeat += 1
        return time.monotonic() - begin


@contextmanager
def standing(name: StageName, folder: Path) -> Iterator[Stage]:
    """A stage, for as long as it is needed."""
    place = folder / name
    place.mkdir(parents=True)
    stage = STAGES[name](place)
    try:
        yield stage
    finally:
        stage.close()


def check_installed() -> None:
    """Raises PartFailed where there is nothing to train with."""
    missing = [name for name in ("torch", "trainer") if importlib.util.find_spec(name) is None]
    if missing:
        raise PartFailed(f"{missing[0]} is not installed", "drills strike real jobs", "pip install 'zmon[trainer]'")


def named(drills: Sequence[Drill], names: Collection[str]) -> tuple[Drill, ...]:
    """Those of these names. Raises UsageError for one that there is not."""
    known = {drill.name: drill for drill in drills}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no drill {name!r}", "it is misspelt", "zmon drill --list names them all")
    return tuple(known[name] for name in names)
