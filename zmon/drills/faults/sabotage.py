"""Faults from within: orders to the saboteur in the job, which tells nobody."""

from __future__ import annotations

import time
from collections.abc import Callable

from zmon.drills.drill import Fault, Scene, Strike
from zmon.drills.orders import Order, begun, make_hold, p99_seconds, place, release, steps_done
from zmon.errors import ZmonError

HEARD_SECONDS = 10.0  # and a few steps more


def one_rank(what: str, amount: float = 0.0, lifts: bool = True) -> Fault:
    """One rank is told to do something, for as long as the order stands."""

    def strike(scene: Scene) -> Strike:
        order = Order(what, (scene.rank,), amount)
        place(scene.job.folder, order)
        return Strike(heard(scene, order), (lambda: place(scene.job.folder)) if lifts else None)

    return strike


def held(what: str) -> Fault:
    """One rank waits for what does not come, until it is let go."""

    def strike(scene: Scene) -> Strike:
        make_hold(scene.job.folder, scene.rank)
        struck = one_rank(what)(scene)
        return Strike(struck.onset, lambda: release(scene.job.folder, scene.rank))

    return strike


def hot_shard(scene: Scene) -> Strike:
    """Every rank sends more to one of them."""
    order = Order("hot", None, scene.rank)
    place(scene.job.folder, order)
    return Strike(heard(scene, order), lambda: place(scene.job.folder))


def everybody(what: str, amount: float = 0.0, ranks: tuple[int, ...] | None = None) -> Fault:
    """All ranks, or some, do something in the same step, soon."""

    def strike(scene: Scene) -> Strike:
        order = Order(what, ranks, amount, at=soon(scene))
        place(scene.job.folder, order)
        return Strike(heard(scene, order, ranks[0] if ranks else 0))

    return strike


def soon(scene: Scene) -> int:
    """A step that no rank has begun by the time it reads of it."""
    usual = p99_seconds(scene.job.folder) or scene.job.spec.step_seconds
    return steps_done(scene.job.folder) + 3 + int(1.0 / usual)


def heard(scene: Scene, order: Order, rank: int | None = None) -> float:
    """When the order was first obeyed, in unix seconds. Raises ZmonError where nobody obeys."""
    seconds = HEARD_SECONDS + 10 * scene.job.spec.step_seconds
    when = begun(scene.job.folder, order, scene.rank if rank is None else rank, seconds)
    if when is None:
        raise ZmonError(f"the job did not obey {order.what!r}", "it stands still, or died", _log(scene))
    return when


def wait_until(true: Callable[[], object], seconds: float) -> bool:
    """Whether it becomes true within so many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _log(scene: Scene) -> str:
    return f"see {scene.job.folder}/log"
