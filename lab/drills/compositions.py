"""Random compositions for real jobs: a job, a launcher and one or two faults, from a seed and a number. Pure.

A composition is a `Drill`, so the same code plays, scores and reports it. Its faults are those of the matrix, and
others that are not worth a drill of their own.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from lab.drills.draw import Draw
from lab.drills.drill import Drill
from lab.drills.truth import recorded
from lab.faults import parts, signals
from lab.faults.sabotage import held, many_ranks, one_rank, ordered
from lab.faults.together import then
from lab.stage import JobKind, LauncherName

EXITED, HUNG = ("rank_exited",), ("compute_hang",)
CAN_SWALLOW: tuple[JobKind, ...] = ("ddp", "plain")  # jobs that can catch an exception and go on
PAUSE_SECONDS = (2.0, 18.0)  # shortest and longest: below the earliest page of a stall that silence proves
PAUSED = ("compute_hang", "input_stall", "lease_overrun")  # true causes of a warning while a pause lasts

ELEMENTS = (  # the first fault of a composition is one of these
    Drill("raise", "one rank raises", ordered("raise"), EXITED, "stall", proof="state"),
    Drill("raise-storage", "one rank's storage client loses its connection", ordered("raise_storage"), EXITED, "stall",
          proof="state"),
    Drill("raise-wrapped", "one rank raises an exception from another", ordered("raise_wrapped"), EXITED, "stall",
          proof="state"),
    Drill("raise-in-loader", "one rank's data loader raises", ordered("raise_in_loader"), EXITED, "stall",
          proof="state"),
    Drill("kill", "SIGKILL to one rank", signals.kill_rank, EXITED, "stall", proof="state"),
    Drill("exit-zero", "one rank ends with exit code 0", ordered("exit_zero"), ("uneven_end",), "stall", proof="state"),
    Drill("exit-code", "one rank ends with exit code 7", ordered("exit_code"), EXITED, "stall", proof="state"),
    Drill("exit-at-once", "one rank ends without last words", ordered("exit_at_once"), EXITED, "stall", proof="state"),
    Drill("reset", "one TCP connection between two ranks is reset", ordered("reset"), ("connection_lost",), "stall",
          culprit="none", proof="state"),
    Drill("stop", "SIGSTOP to one rank", signals.stop_rank, ("rank_frozen",), "stall", proof="state"),
    Drill("stop-in-init", "SIGSTOP to one rank that starts", signals.stop_rank, ("rank_frozen",), "stall",
          proof="state", begins="starting"),
    Drill("hold", "one rank holds the interpreter lock", held("hold_interpreter"), HUNG, "stall"),
    Drill("lock", "one rank waits for a lock", held("deadlock"), HUNG, "stall"),
    Drill("leave", "one rank leaves the loop and stays", one_rank("leave", lifts=False), HUNG, "stall"),
    Drill("loader", "one rank's data loader never returns", held("loader_hangs"), ("input_stall",), "stall"),
    Drill("skip", "one rank leaves out a collective", one_rank("skip", lifts=False), ("collective_mismatch",), "stall",
          ranks=(4, 8)),
    Drill("size", "one rank brings another size", one_rank("size", lifts=False), ("collective_mismatch",), "stall",
          proof="state", ranks=(4, 8)),
    Drill("swallow", "one rank catches an exception and goes on", ordered("swallow"),
          ("sequence_lag", "collective_mismatch", "uneven_end"), "stall", kinds=CAN_SWALLOW, ranks=(4, 8)),
    Drill("slow", "one rank computes half as long again", one_rank("slow", 1.5), ("compute_straggler",), "straggler",
          proof="steps"),
    Drill("slow-loader", "one rank's input takes half a step longer", one_rank("slow_loader", 0.5),
          ("input_straggler",), "straggler", proof="steps"),
    Drill("pause-in-data", "one rank waits for its data, then goes on", ordered("pause_data", *PAUSE_SECONDS),
          watch_seconds=28.0, may_warn=PAUSED),
    Drill("pause-in-compute", "one rank computes longer, then goes on", ordered("pause_compute", *PAUSE_SECONDS),
          watch_seconds=28.0, may_warn=PAUSED),
    Drill("pause-between", "one rank saves by an unknown library, then goes on",
          ordered("pause_between", *PAUSE_SECONDS), watch_seconds=28.0, may_warn=PAUSED),
    Drill("evaluate", "all ranks evaluate for 12 s", many_ranks("evaluate", 12.0), culprit="none",
          watch_seconds=20.0),
    Drill("save-on-rank-0", "rank 0 saves for 10 s", many_ranks("save", 10.0, (0,)), culprit="none",
          watch_seconds=18.0),
    Drill("cancel-term", "the owner ends the job with SIGTERM", signals.cancel(signal.SIGTERM), culprit="none"),
    Drill("cancel-int", "the owner ends the job with Ctrl-C", signals.cancel(signal.SIGINT), culprit="none"),
    Drill("agent-restart", "the agent is killed and comes back", parts.restart("agent"), culprit="none",
          watch_seconds=12.0),
    Drill("hub-restart", "the hub is killed and comes back", parts.restart("hub"), culprit="none",
          watch_seconds=12.0),
)  # fmt: skip

SECOND = ("raise", "kill", "stop", "lock", "exit-zero", "pause-in-data")  # these may follow another fault
ALONE = ("cancel-term", "cancel-int", "stop-in-init", "evaluate", "save-on-rank-0")
SECOND_SHARE = 0.25


@dataclass(frozen=True)
class RealComposition:
    """A composition as a drill, with the job and the rank that were drawn."""

    drill: Drill
    draw: Draw
    launcher: LauncherName
    max_restarts: int


def compose_drill(seed: int, number: int, truth: Path) -> RealComposition:
    """Return the composition with this number; numbers go through all elements. Its faults are recorded in `truth`."""
    random = Random(f"{seed} {number} real")
    first = ELEMENTS[number % len(ELEMENTS)]
    launcher: LauncherName = random.choice(("torchrun", "torchrun", "mpirun", "spawn", "none"))
    restarts = random.choice((0, 0, 2)) if launcher == "torchrun" else 0
    kind, ranks = random.choice(first.kinds), random.choice(first.ranks)
    draw = Draw(number, seed, kind, ranks, random.choice(first.step_seconds), random.randrange(ranks))
    drill = replace(first, fault=recorded(first, truth))
    if first.name not in ALONE and random.random() < SECOND_SHARE:
        second = random.choice(
            [element for element in ELEMENTS if element.name in SECOND and element.name != first.name]
        )
        drill = _with_second(drill, replace(second, fault=recorded(second, truth)))
    drill = replace(drill, job={**drill.job, "launcher": launcher, "max_restarts": restarts})
    return RealComposition(drill, draw, launcher, restarts)


def _with_second(first: Drill, second: Drill) -> Drill:
    """Return a drill with both faults. The causes of both are right."""
    loud = second if first.quiet else first
    return replace(
        loud,
        name=f"{first.name}+{second.name}",
        injects=f"{first.injects}, then {second.injects}",
        fault=then(first.fault, second.fault, is_first_harmless=first.quiet),
        causes=(*first.causes, *second.causes),
        watch_seconds=max(first.watch_seconds, second.watch_seconds),
    )
