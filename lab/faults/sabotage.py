"""Cause faults inside the job through orders to its saboteur, about which zmon gets no hint."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.drills.drill import Fault, Injection, Scene
from lab.jobs.orders import Order, await_obeyed, make_hold, p99_seconds, release, set_orders, steps_done
from zmon.errors import ZmonError

OBEY_SECONDS = 10.0  # time for a rank to obey an order, in addition to ten steps
_READING_SECONDS = 1.0  # within this time every rank reads a new order
_SPARE_STEPS = 3  # the count is that of rank 0; other ranks may be ahead of it


def one_rank(what: str, amount: float = 0.0, lifts: bool = True) -> Fault:
    """Return a fault that orders one rank to do something.

    The order is withdrawn when the fault is lifted, or never if `lifts` is False.
    """

    def inject(scene: Scene) -> Injection:
        order = Order(what, (scene.rank,), amount)
        set_orders(scene.job.folder, order)
        onset = await_obedience(scene, order)
        return Injection(onset, lift=(lambda: set_orders(scene.job.folder)) if lifts else None)

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


def held(what: str) -> Fault:
    """Return a fault that makes one rank wait for something that never comes, until it is released."""

    def inject(scene: Scene) -> Injection:
        make_hold(scene.job.folder, scene.rank)
        injection = one_rank(what)(scene)
        return Injection(injection.onset, lambda: release(scene.job.folder, scene.rank))

    return inject


def hot_shard(scene: Scene) -> Injection:
    """Order all ranks to send more to the shard of the scene's rank."""
    order = Order("hot", ranks=None, amount=scene.rank)  # the amount is the rank whose shard gets more
    set_orders(scene.job.folder, order)
    return Injection(await_obedience(scene, order), lambda: set_orders(scene.job.folder))


def many_ranks(what: str, amount: float = 0.0, ranks: tuple[int, ...] | None = None) -> Fault:
    """Return a fault that orders all ranks, or some, to do something in the same coming step. It has no lift."""

    def inject(scene: Scene) -> Injection:
        order = Order(what, ranks, amount, at=coming_step(scene))
        set_orders(scene.job.folder, order)
        return Injection(await_obedience(scene, order, ranks[0] if ranks else 0))

    return inject


def coming_step(scene: Scene) -> int:
    """Return the number of a step that no rank begins before it has read the order."""
    step_seconds = p99_seconds(scene.job.folder) or scene.job.spec.step_seconds
    return steps_done(scene.job.folder) + _SPARE_STEPS + int(_READING_SECONDS / step_seconds)


def await_obedience(scene: Scene, order: Order, rank: int | None = None) -> float:
    """Wait until a rank obeys the order; return the time in unix seconds. Raises ZmonError if it does not obey."""
    default = OBEY_SECONDS + 10 * scene.job.spec.step_seconds
    seconds = default if scene.obey_seconds is None else scene.obey_seconds
    onset = await_obeyed(scene.job.folder, scene.rank if rank is None else rank, seconds)
    if onset is None:
        log = f"see {scene.job.folder}/log"
        raise ZmonError(f"the job did not obey {order.what!r}", "it makes no progress, or died", log)
    return onset


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Wait until `condition` holds, for at most this many seconds. Return True if it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
