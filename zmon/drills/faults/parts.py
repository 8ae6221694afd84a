"""A part of the monitor dies: killed for good, or killed and started again by its supervisor."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import psutil

from zmon.drills.drill import Fault, Scene, Strike
from zmon.drills.faults.sabotage import wait_until
from zmon.drills.faults.signals import go_on, process_of
from zmon.drills.stage import PartName, Stage
from zmon.errors import ZmonError

BACK_SECONDS = 20.0
FOUND_SECONDS = 20.0
STOPPED_SECONDS = 2.0


def restart(part: PartName) -> Fault:
    """SIGKILL it; whoever supervises it starts it again."""

    def strike(scene: Scene) -> Strike:
        onset = time.time()
        scene.stage.part(part).kill()
        time.sleep(0.5)
        if not wait_until(lambda: scene.stage.answers(part), BACK_SECONDS):
            raise ZmonError(f"{part} did not come back", "its supervisor did not start it", f"see {scene.stage.folder}")
        return Strike(onset)

    return strike


def kill_agent(scene: Scene) -> Strike:
    """SIGKILL the agent, and nobody starts it again until that is lifted."""
    onset, lift = _kill(scene.stage, "agent")
    return Strike(onset, lift, host=scene.host)


def kill_hub(scene: Scene) -> Strike:
    """SIGKILL the hub, which has a finding to lose; then a rank is stopped, and only the backstop can page."""
    rank = process_of(scene)
    try:
        rank.suspend()
        paged = wait_until(lambda: _last_page(scene) == "firing", FOUND_SECONDS)
    finally:
        go_on(rank)
    if not (paged and wait_until(lambda: _last_page(scene) == "resolved", 3 * FOUND_SECONDS)):
        raise ZmonError("the hub has nothing to lose", "it did not find a stopped rank", "play rank-frozen first")
    with ExitStack() as undo:
        undo.callback(go_on, rank)
        onset, start_again = _kill(scene.stage, "hub")
        undo.callback(start_again)
        rank.suspend()
        return Strike(onset, undo.pop_all().close)


def kill_prometheus(scene: Scene) -> Strike:
    """SIGKILL Prometheus, then stop a rank: the hub knows by itself; the page has to come after the restart."""
    rank = process_of(scene)
    with ExitStack() as undo:
        undo.callback(go_on, rank)
        _, start_again = _kill(scene.stage, "prometheus")
        try:
            rank.suspend()
            onset = time.time()
            wait_until(lambda: scene.stage.findings(scene.job.spec.job_id), FOUND_SECONDS)
        finally:
            start_again()
        return Strike(onset, undo.pop_all().close, unscraped=True)


def agent_lost_nothing(scene: Scene) -> str | None:
    """Its ranks are seen again, further on than before."""
    if not wait_until(lambda: scene.stage.answers("agent"), BACK_SECONDS):
        return "the agent did not come back"
    seen = wait_until(lambda: len(scene.stage.ranks(scene.job.spec.job_id)) == scene.job.spec.ranks, BACK_SECONDS)
    return None if seen else "not all ranks are seen again"


def hub_lost_nothing(scene: Scene) -> str | None:
    """What it had found before it died is still there."""
    if not wait_until(lambda: scene.stage.answers("hub"), BACK_SECONDS):
        return "the hub did not come back"
    kept = [f for f in scene.stage.findings(scene.job.spec.job_id, active=False) if f.cause == "rank_frozen"]
    return None if any(f.ranks == (scene.rank,) and f.resolved for f in kept) else "the finding from before is lost"


def prometheus_lost_nothing(scene: Scene) -> str | None:
    """The history from before is still there, and what happened meanwhile is paged."""
    if not wait_until(lambda: scene.stage.answers("prometheus"), BACK_SECONDS):
        return "Prometheus did not come back"
    asked = f'zmon_steps_total{{job_id="{scene.job.spec.job_id}"}} offset 30s'
    return None if wait_until(lambda: scene.stage.query(asked), BACK_SECONDS) else "the history from before is lost"


def _last_page(scene: Scene) -> str | None:
    """What whoever is paged about the job heard last: firing or resolved."""
    about = [page.status for page in scene.stage.pages() if page.job_id == scene.job.spec.job_id]
    return about[-1] if about else None


def _kill(stage: Stage, part: PartName) -> tuple[float, Callable[[], None]]:
    """A supervisor that is stopped starts nothing again; the second of the two lets it go on."""
    supervisor = stage.supervisor()
    with ExitStack() as undo:
        undo.callback(go_on, supervisor)
        supervisor.suspend()
        wait_until(lambda: supervisor.status() == psutil.STATUS_STOPPED, STOPPED_SECONDS)  # it may be computing
        stage.part(part).kill()
        return time.time(), undo.pop_all().close
