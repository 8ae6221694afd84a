"""Cause two faults, one after the other, and record the truth about every fault before zmon is asked about it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec

from lab.drills.drill import Drill, Fault, Injection, Scene
from lab.drills.score import TrueFault
from lab.faults.sabotage import await_obedience
from lab.jobs.orders import Order, set_orders
from zmon.errors import ZmonError

GAP_SECONDS = 1.5  # between two faults, at most
OBEY_SECONDS = 2.0  # for the second fault, in addition to three steps: the first may have stopped the job
PAUSED_SECONDS = 30.0  # the same after something harmless, such as a pause


def then(first: Fault, second: Fault, *, is_first_harmless: bool = False) -> Fault:
    """Return a fault that causes the first fault and, a random time later, the second one on another rank.

    If the second one cannot be caused any more because the first has stopped or ended the job, it is left out. Both are
    lifted, or none: a job does not go on with one of them.
    """

    def inject(scene: Scene) -> Injection:
        rank = scene.random.choice([number for number in range(scene.job.spec.ranks) if number != scene.rank])
        gap = scene.random.uniform(0.0, GAP_SECONDS)
        state = scene.stage.ranks(scene.job.spec.job_id).get(rank)
        with ExitStack() as undo:
            injections = [first(scene)]
            _undo_later(undo, injections[0])
            time.sleep(gap)
            if state is not None:
                least = PAUSED_SECONDS if is_first_harmless else OBEY_SECONDS
                seconds = least + 3 * scene.job.spec.step_seconds
                second_scene = replace(scene, rank=rank, host=state.host, pid=state.pid, obey_seconds=seconds)
                try:
                    injections.append(second(second_scene))
                except ZmonError:
                    if is_first_harmless:
                        raise
                    set_orders(scene.job.folder)
                else:
                    _undo_later(undo, injections[1])
            lift_all = undo.pop_all().close  # not called if one of them cannot be lifted: the end of the job ends all
            lift = lift_all if all(injection.lift for injection in injections) else None
            struck_too = (rank,) if len(injections) > 1 else ()
            onset = injections[-1 if is_first_harmless else 0].onset  # of the fault to report
            return Injection(onset, lift, rank=injections[0].rank, others=struck_too)

    return inject


def _undo_later(undo: ExitStack, injection: Injection) -> None:
    if injection.lift is not None:
        undo.callback(injection.lift)


def recorded(element: Drill, path: Path) -> Fault:
    """Return the fault of a drill, which then appends the truth about itself to a file of JSON lines."""

    def inject(scene: Scene) -> Injection:
        injection = element.fault(scene)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(true_fault(element, scene, injection)) + b"\n")
        return injection

    return inject


def true_fault(drill: Drill, scene: Scene, injection: Injection) -> TrueFault:
    """Return the truth about the fault of a drill that was caused."""
    struck = injection.rank if injection.rank is not None else scene.rank
    return TrueFault(
        job=scene.job.spec.job_id,
        fault=drill.name,
        rank=struck if drill.culprit == "rank" else None,
        host=injection.host or scene.host,
        time=injection.onset,
        causes=drill.causes,
        may_warn=drill.may_warn,
    )


def read_truth(path: Path, job_id: str, since: float) -> tuple[TrueFault, ...]:
    """Return the faults that struck a job since that time; a resumed session uses the names of its jobs again."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    faults = (msgspec.json.decode(line, type=TrueFault) for line in lines)
    return tuple(fault for fault in faults if fault.job == job_id and fault.time >= since)


def ordered(what: str, shortest: float = 0.0, longest: float = 0.0) -> Fault:
    """Return a fault that orders one rank to do something, with a random amount.

    The order is withdrawn at once, so that a restarted job does not obey it again.
    """

    def inject(scene: Scene) -> Injection:
        order = Order(what, (scene.rank,), scene.random.uniform(shortest, longest))
        set_orders(scene.job.folder, order)
        onset = await_obedience(scene, order)
        set_orders(scene.job.folder)
        return Injection(onset)

    return inject
