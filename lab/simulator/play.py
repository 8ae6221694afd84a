"""Play one composition in the simulator: run the job until its faults have shown their effect, and score zmon."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from lab.drills.acts import wrong_acts
from lab.drills.result import Result
from lab.simulator.acts import blames
from lab.simulator.composition import Composition
from lab.simulator.owner import looks_like_the_owners_end
from lab.simulator.truth import Truth, is_true_without_a_fault, truth_of
from lab.simulator.verdict import Aftermath, Play, judge
from lab.simulator.watch import Watch
from lab.simulator.world import World
from zmon.hub.acts import Policy
from zmon.schema.names import STALL

STRIKE_SECONDS = 240.0  # a fault must strike within this time
AFTER_SECONDS = 26.0  # time for findings after the last fault; a fault that heals gets the time until then in addition
SLOW_SECONDS, SLOW_STEPS = 40.0, 40  # time for findings about slow ranks: the longer of the two
JITTER_SECONDS = 400.0  # time for the warning about `jitter`, which comes once 20 s of training are lost
JITTER_LOOK_SECONDS = 10.0  # between two looks for this warning
PAGE_SECONDS = 330.0  # time for the page about a stall that only silence shows: zmon pages within five minutes
INIT_SECONDS = 2200.0  # further time if no stall has paged: the longest lease and the time to page
ENDED_BY_RESTART = ("raise", "raise_wrapped", "raise_all", "kill", "abort", "exit_code")
RESTART_SECONDS = 25.0  # a page is no false alarm if the launcher takes longer to start the job again
FINAL = ("cancel", "finish")  # after these strikes no rank needs to move
MOVE_STEPS, MOVE_SECONDS = 10, 8.0  # a job that makes progress ends a step within ten usual steps and 8 s


def play(composition: Composition, policy: Policy | None = None) -> Play:
    """Play a composition. Return the result, or the reason why it was skipped.

    With a policy, the acts that it asks for are judged too.
    """
    with tempfile.TemporaryDirectory(prefix="zmon-simulated-") as folder:
        world = World(composition)
        watch = Watch(world, Path(folder), policy)
        while not world.struck and world.time < STRIKE_SECONDS:
            watch.run(world.time + 1.0)
        while True:  # a fault may strike while the job shows whether it moves
            num_struck = len(world.struck)
            is_moving = _await_findings(world, watch)
            if len(world.struck) == num_struck:
                break
        is_moving = is_moving or any(struck.strike.what in FINAL for struck in world.struck)
        truths = [
            truth_of(composition, struck.strike, struck.time, watch.agent_of(struck.strike.rank).shows(struck.time))
            for struck in world.struck
        ]
        unjudged = Play(
            composition.seed, composition.number, faults=(), culprits=(), evidence="none", result="skipped",
            composition=str(composition),
        )  # fmt: skip
        if not truths:
            return structs.replace(unjudged, skipped=f"no fault struck within {STRIKE_SECONDS:g} s")
        if watch.errors:
            return structs.replace(unjudged, result="broken", summary=str(watch.errors))
        published = [
            state for state in watch.published if not is_true_without_a_fault(world.shape, truths, state.finding)
        ]
        was_restarted = len(world.launches) > 1
        aftermath = Aftermath(
            is_moving=is_moving,
            was_restarted=was_restarted,
            is_mended=was_restarted and is_moving and _is_mended(world, truths),
            looks_like_owner=looks_like_the_owners_end(world, watch.agents),
        )
        played = judge(unjudged, truths, published, world.shape.hosts, aftermath)
        wrong = wrong_acts(watch.acts, blames(truths))
        result: Result = "wrong act" if wrong else played.result
        return structs.replace(played, result=result, num_acts=len(watch.acts), wrong_acts=wrong)


def _is_mended(world: World, truths: Sequence[Truth]) -> bool:
    """Return True if the launcher has started the job again soon after each fault, so that nobody has to act."""
    starts = world.launchers.relaunched.values()
    return all(
        truth.strike.what in ENDED_BY_RESTART and any(0.0 <= start - truth.time < RESTART_SECONDS for start in starts)
        for truth in truths
    )


def _await_findings(world: World, watch: Watch) -> bool:
    """Run until the findings about all faults should have been published. Return True if the job makes progress.

    A job that stands still gets more time: for a page, and if there is none, for the longest lease. Meanwhile NCCL's
    watchdog may end ranks that wait, and their launcher may start the job again.
    """
    faults = {struck.strike.what for struck in world.struck}
    num_launches = len(world.launches)
    slow_seconds = max(SLOW_SECONDS, SLOW_STEPS * world.shape.step_seconds)
    watch.run(world.time + (slow_seconds if faults & {"slow", "jitter"} else AFTER_SECONDS))
    if "jitter" in faults:
        _await_jitter_warning(world, watch)
    healing_seconds = max((strike.seconds or 0.0 for strike in world.composition.strikes), default=0.0)
    watch.run(world.time + healing_seconds)
    while world.launchers.is_restarting:
        watch.run(world.time + 1.0)
    if _run_and_see_progress(world, watch):
        return True
    _await_page(world, watch)
    return len(world.launches) > num_launches and _run_and_see_progress(world, watch)


def _await_jitter_warning(world: World, watch: Watch) -> None:
    until = world.time + JITTER_SECONDS
    while world.time < until and not watch.names_slow_steps and _run_and_see_progress(world, watch):
        watch.run(world.time + JITTER_LOOK_SECONDS)


def _await_page(world: World, watch: Watch) -> None:
    """Run until a stall that only silence shows has paged; if no stall has, until the longest lease has passed."""
    watch.run(world.time + PAGE_SECONDS)
    findings = [state.finding for state in watch.published]
    if not any(finding.detector == STALL and finding.severity == "critical" for finding in findings):
        watch.run(world.time + INIT_SECONDS)


def _run_and_see_progress(world: World, watch: Watch) -> bool:
    """Run for ten usual steps and 8 s more, unless a rank cannot move. Return True if all ranks have ended a step."""
    if world.is_still or any(rank.ended is not None for rank in world.ranks):
        return False
    before = min(rank.now.step for rank in world.ranks)
    watch.run(world.time + MOVE_STEPS * world.shape.step_seconds + MOVE_SECONDS)
    return not world.is_still and min(rank.now.step for rank in world.ranks) > before
