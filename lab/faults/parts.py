"""Kill a part of zmon, for good or so that its supervisor starts it again, and check what a restart has lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import psutil

from lab.drills.drill import Fault, Injection, Scene
from lab.faults.sabotage import wait_until
from lab.faults.signals import go_on, process_of
from lab.stage import PartName, Stage
from zmon.errors import ZmonError

BACK_SECONDS = 20.0  # a restarted part must answer within this time
PAGE_SECONDS = 20.0  # a page must arrive within this time
DEATH_SECONDS = 0.5  # from SIGKILL to the first health check
STOPPED_SECONDS = 2.0  # a stopped process must be in state T within this time


def restart(part: PartName) -> Fault:
    """Return a fault that sends SIGKILL to a part, which its supervisor starts again."""

    def inject(scene: Scene) -> Injection:
        onset = time.time()
        scene.stage.part(part).kill()
        time.sleep(DEATH_SECONDS)
        if not wait_until(lambda: scene.stage.is_healthy(part), BACK_SECONDS):
            raise ZmonError(f"{part} did not come back", "its supervisor did not start it", f"see {scene.stage.folder}")
        return Injection(onset)

    return inject


def kill_agent(scene: Scene) -> Injection:
    """Send SIGKILL to the agent, which stays down until the fault is lifted."""
    onset, start_again = _kill(scene.stage, "agent")
    return Injection(onset, start_again, host=scene.host)


def kill_hub(scene: Scene) -> Injection:
    """Kill a hub that has a finding to lose, then stop a rank. Only the backstop alert can page about that rank."""
    rank = process_of(scene)
    try:
        rank.suspend()
        paged = wait_until(lambda: _last_page(scene) == "firing", PAGE_SECONDS)
    finally:
        go_on(rank)
    if not (paged and wait_until(lambda: _last_page(scene) == "resolved", 3 * PAGE_SECONDS)):
        raise ZmonError(
            "the hub has no finding to lose", "it did not report a stopped rank", "play the drill rank-frozen first"
        )
    with ExitStack() as undo:
        undo.callback(go_on, rank)
        onset, start_again = _kill(scene.stage, "hub")
        undo.callback(start_again)
        rank.suspend()
        return Injection(onset, undo.pop_all().close)


def kill_prometheus(scene: Scene) -> Injection:
    """Kill Prometheus, then stop a rank: the hub reports it by itself, and the page must come after the restart."""
    rank = process_of(scene)
    with ExitStack() as undo:
        undo.callback(go_on, rank)
        _, start_again = _kill(scene.stage, "prometheus")
        try:
            rank.suspend()
            onset = time.time()
            wait_until(lambda: scene.stage.findings(scene.job.spec.job_id), PAGE_SECONDS)
        finally:
            start_again()
        return Injection(onset, undo.pop_all().close, unscraped=True)


def agent_lost_nothing(scene: Scene) -> str | None:
    """Return what the agent lost in its restart; None if it answers and reports all ranks."""
    if not wait_until(lambda: scene.stage.is_healthy("agent"), BACK_SECONDS):
        return "the agent did not come back"
    complete = wait_until(lambda: len(scene.stage.ranks(scene.job.spec.job_id)) == scene.job.spec.ranks, BACK_SECONDS)
    return None if complete else "the agent does not report all ranks again"


def hub_lost_nothing(scene: Scene) -> str | None:
    """Return what the hub lost in its restart; None if it answers and has the previous finding."""
    if not wait_until(lambda: scene.stage.is_healthy("hub"), BACK_SECONDS):
        return "the hub did not come back"
    has_finding = any(
        finding.cause == "rank_frozen" and finding.ranks == (scene.rank,) and finding.resolved
        for finding in scene.stage.findings(scene.job.spec.job_id, active=False)
    )
    return None if has_finding else "the finding from before the restart is lost"


def prometheus_lost_nothing(scene: Scene) -> str | None:
    """Return what Prometheus lost in its restart; None if it answers and has the previous samples."""
    if not wait_until(lambda: scene.stage.is_healthy("prometheus"), BACK_SECONDS):
        return "Prometheus did not come back"
    query = f'zmon_steps_total{{job_id="{scene.job.spec.job_id}"}} offset 30s'
    has_samples = wait_until(lambda: scene.stage.query(query), BACK_SECONDS)
    return None if has_samples else "the history from before the restart is lost"


def _last_page(scene: Scene) -> str | None:
    """Return the status of the last page about the job, firing or resolved, or None if there is none."""
    statuses = [page.status for page in scene.stage.pages() if page.job_id == scene.job.spec.job_id]
    return statuses[-1] if statuses else None


def _kill(stage: Stage, part: PartName) -> tuple[float, Callable[[], None]]:
    """Stop the supervisor, and kill a part. Return the time, and a function that lets the supervisor start it again."""
    supervisor = stage.supervisor()
    with ExitStack() as undo:
        undo.callback(go_on, supervisor)
        supervisor.suspend()
        # The signal takes effect with a delay.
        wait_until(lambda: supervisor.status() == psutil.STATUS_STOPPED, STOPPED_SECONDS)
        stage.part(part).kill()
        return time.time(), undo.pop_all().close
