"""The faults that come from outside a rank: signals, links, connections, the owner of the job. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zmon.drills.simulator.composition import Strike
    from zmon.drills.simulator.rank import SimulatedRank
    from zmon.drills.simulator.world import World


def strike_from_outside(world: World, strike: Strike) -> None:
    """Let the fault strike now, and heal by itself if it does."""
    rank = world.ranks[strike.rank]
    match strike.what:
        case "kill":
            world.processes.signal(rank, "SIGKILL")
        case "stop":
            _stop(world, rank, strike.seconds)
        case "reset":
            assert strike.peer is not None
            world.processes.reset(strike.rank, strike.peer)
        case "cancel":
            world.launchers.cancel(strike.to, strike.number)
        case "launcher_kill":
            world.launchers.kill(rank)
        case "host_lost":
            world.network.cut[rank.host] = world.network.lost[rank.host] = world.time
        case "link_cut":
            world.network.cut[rank.host] = world.time
            _heal(world, strike, lambda: world.network.cut.pop(rank.host))
        case "pair_cut":
            assert strike.peer is not None
            pair = frozenset((rank.host, world.shape.host_of(strike.peer)))
            world.network.pairs[pair] = world.time
            _heal(world, strike, lambda: world.network.pairs.pop(pair))
        case "agent_restart" | "hub_restart":
            world.on_outside(strike)


def _stop(world: World, rank: SimulatedRank, seconds: float | None) -> None:
    if rank.ended is None and rank.stopped_since(world.time) is None:
        rank.stop(world.time, None)
        if seconds is not None:
            world.schedule(seconds, lambda: world.processes.resume(rank))


def _heal(world: World, strike: Strike, undo: Callable[[], object]) -> None:
    def heal() -> None:
        undo()
        world.deliver_all()

    if strike.seconds is not None:
        world.schedule(strike.seconds, heal)
