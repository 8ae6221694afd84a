"""Cause two faults, one after the other, on two ranks."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace

from lab.drills.drill import Fault, Injection, Scene
from lab.jobs.orders import set_orders
from zmon.errors import ZmonError

GAP_SECONDS = 1.5  # between two faults, at most
# Time for a rank to obey an order of the second fault, in addition to three steps.
OBEY_SECONDS = 2.0  # after a first fault, which may have stopped the job for good
PAUSED_SECONDS = 30.0  # after something harmless, such as a pause, because the job goes on


def then(first: Fault, second: Fault, *, is_first_harmless: bool = False) -> Fault:
    """Return a fault that causes the first fault and, a random time later, the second one on another rank.

    If the second one cannot be caused any more because the first has stopped or ended the job, it is left out. Both are
    lifted, or none: a job does not go on with one of them.
    """

    def inject(scene: Scene) -> Injection:
        rank = scene.random.choice([number for number in range(scene.job.spec.ranks) if number != scene.rank])
        gap = scene.random.uniform(0.0, GAP_SECONDS)
        state = scene.stage.ranks(scene.job.spec.job_id).get(rank)
        obey_seconds = (PAUSED_SECONDS if is_first_harmless else OBEY_SECONDS) + 3 * scene.job.spec.step_seconds
        with ExitStack() as undo:
            injections = [first(scene)]
            _undo_later(undo, injections[0])
            time.sleep(gap)
            if state is not None:
                scene_of_second = replace(scene, rank=rank, host=state.host, pid=state.pid, obey_seconds=obey_seconds)
                try:
                    injections.append(second(scene_of_second))
                except ZmonError:
                    if is_first_harmless:
                        raise
                    set_orders(scene.job.folder)
                else:
                    _undo_later(undo, injections[1])
            lift_all = undo.pop_all().close  # not called if one of them cannot be lifted: the end of the job ends all
            return Injection(
                onset=injections[-1 if is_first_harmless else 0].onset,  # of the fault to report
                lift=lift_all if all(injection.lift for injection in injections) else None,
                rank=injections[0].rank,
                others=(rank,) if len(injections) > 1 else (),
            )

    return inject


def _undo_later(undo: ExitStack, injection: Injection) -> None:
    if injection.lift is not None:
        undo.callback(injection.lift)
