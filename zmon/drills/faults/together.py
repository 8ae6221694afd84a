"""Cause two faults, one after the other, and write down what is true before zmon is asked about it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import msgspec

from zmon.drills.drill import Fault, Injection, Scene
from zmon.drills.faults.sabotage import await_obedience
from zmon.drills.launched import running
from zmon.drills.orders import Order, set_orders

GAP_SECONDS = 1.5  # between two faults, at most


class TrueFault(msgspec.Struct, frozen=True):
    """The truth about one fault of a composition: what struck whom, and when."""

    job: str
    fault: str
    rank: int
    host: str
    time: float  # unix seconds


def then(first: Fault, second: Fault) -> Fault:
    """Return a fault that causes the first fault and, a random time later, the second one on another rank.

    If the second one cannot be caused any more because the first has ended the job, it is left out.
    """

    def inject(scene: Scene) -> Injection:
        others = [n for n in range(scene.job.spec.ranks) if n != scene.rank]
        rank = scene.random.choice(others)
        gap = scene.random.uniform(0.0, GAP_SECONDS)
        state = scene.stage.ranks(scene.job.spec.job_id).get(rank)
        with ExitStack() as undo:
            injection = first(scene)
            if injection.lift is not None:
                undo.callback(injection.lift)
            time.sleep(gap)
            struck: tuple[int, ...] = ()
            if state is not None and any(process.pid == state.pid for process in running(scene.job.folder)):
                more = second(Scene(scene.stage, scene.job, rank, state.host, state.pid, scene.random))
                if more.lift is not None:
                    undo.callback(more.lift)
                struck = (rank,)
            return Injection(injection.onset, undo.pop_all().close, rank=injection.rank, others=struck)

    return inject


def recorded(name: str, fault: Fault, path: Path) -> Fault:
    """Return the fault, which then appends the truth about itself to a file of JSON lines, before zmon is asked."""

    def inject(scene: Scene) -> Injection:
        injection = fault(scene)
        struck = injection.rank if injection.rank is not None else scene.rank
        with path.open("ab") as file:
            for rank in (struck, *injection.others):
                line = TrueFault(scene.job.spec.job_id, name, rank, injection.host or scene.host, injection.onset)
                file.write(msgspec.json.encode(line) + b"\n")
        return injection

    return inject


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
