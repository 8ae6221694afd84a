"""Cause faults inside the job, by orders to its saboteur, which gives zmon no hint."""

from __future__ import annotations

import time
from collections.abc import Callable

from zmon.drills.drill import Fault, Injection, Scene
from zmon.drills.orders import Order, begun, make_hold, p99_seconds, place, release, steps_done
from zmon.errors import ZmonError

OBEY_SECONDS = 10.0  # plus ten steps


def one_rank(what: str, amount: float = 0.0, lifts: bool = True) -> Fault:
    """Return a fault that orders one rank to do something, for as long as the order stands."""

    def inject(scene: Scene) -> Injection:
        order = Order(what, (scene.rank,), amount)
        place(scene.job.folder, order)
        return Injection(await_obedience(scene, order), (lambda: place(scene.job.folder)) if lifts else None)

    return inject


def held(what: str) -> Fault:
    """Return a fault that makes one rank wait for something that never comes, until it is released."""

    def inject(scene: Scene) -> Injection:
        make_hold(scene.job.folder, scene.rank)
        injection = one_rank(what)(scene)
        return Injection(injection.onset, lambda: release(scene.job.folder, scene.rank))

    return inject


def hot_shard(scene: Scene) -> Injection:
    """Make every rank send more to one of them."""
    order = Order("hot", None, scene.rank)
    place(scene.job.folder, order)
    return Injection(await_obedience(scene, order), lambda: place(scene.job.folder))


def many_ranks(what: str, amount: float = 0.0, ranks: tuple[int, ...] | None = None) -> Fault:
    """Return a fault that orders all ranks, or some, to do something in the same coming step."""

    def inject(scene: Scene) -> Injection:
        order = Order(what, ranks, amount, at=coming_step(scene))
        place(scene.job.folder, order)
        return Injection(await_obedience(scene, order, ranks[0] if ranks else 0))

    return inject


def coming_step(scene: Scene) -> int:
    """Return a step that no rank has begun by the time it reads the order."""
    usual = p99_seconds(scene.job.folder) or scene.job.spec.step_seconds
    return steps_done(scene.job.folder) + 3 + int(1.0 / usual)


def await_obedience(scene: Scene, order: Order, rank: int | None = None) -> float:
    """Wait until a rank obeys the order; return when it began, in unix seconds. Raises ZmonError if it does not."""
    seconds = OBEY_SECONDS + 10 * scene.job.spec.step_seconds
    onset = begun(scene.job.folder, order, scene.rank if rank is None else rank, seconds)
    if onset is None:
        raise ZmonError(f"the job did not obey {order.what!r}", "it makes no progress, or died", _log(scene))
    return onset


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Wait until `condition` holds, at most so many seconds; return whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _log(scene: Scene) -> str:
    return f"see {scene.job.folder}/log"
