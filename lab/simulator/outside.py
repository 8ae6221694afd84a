"""The faults that come from outside a rank: signals, links, connections, the owner of the job. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from lab.simulator.composition import Strike
from lab.simulator.endings import SignalName
from lab.simulator.rank import SimulatedRank

if TYPE_CHECKING:
    from lab.simulator.world import World

KILLS_SECONDS = 0.2  # the kernel kills the processes of a control group one after the other
SIGNAL_SECONDS = 0.07  # a signal reaches all ranks of a launcher within this time (measured on a busy machine)


def strike_from_outside(world: World, strike: Strike) -> None:
    """Let the fault strike now, and heal by itself if it does."""
    rank = world.ranks[strike.rank]
    match strike.what:
        case "kill":
            world.processes.signal(rank, "SIGKILL")
        case "term":
            world.processes.signal(rank, "SIGTERM")
        case "kill_host":
            _signal_host(world, rank, "SIGKILL", KILLS_SECONDS)
        case "term_host":
            _signal_host(world, rank, "SIGTERM", SIGNAL_SECONDS)
        case "stop":
            _stop(world, rank, strike.seconds)
        case "reset":
            assert strike.peer is not None
            world.processes.reset(strike.rank, strike.peer)
        case "cancel":
            world.launchers.cancel(strike.to, strike.signal)
        case "launcher_kill":
            world.launchers.kill(rank)
        case "launcher_dies":
            world.launchers.kill(rank)
            _signal_host(world, rank, "SIGTERM", SIGNAL_SECONDS)
        case "host_pause":
            _pause_host(world, strike)
        case "host_lost":
            world.network.cut[rank.host] = world.network.lost[rank.host] = world.time
        case "link_cut":
            world.network.cut[rank.host] = world.time
            _heal(world, strike, lambda: world.network.cut.pop(rank.host, None))
        case "pair_cut":
            assert strike.peer is not None
            pair = frozenset((rank.host, world.shape.host_of(strike.peer)))
            world.network.pairs[pair] = world.time
            _heal(world, strike, lambda: world.network.pairs.pop(pair, None))
        case "agent_restart" | "hub_restart" | "clock_jump":
            world.on_outside(strike)


def _signal_host(world: World, struck: SimulatedRank, name: SignalName, seconds: float) -> None:
    """Send a signal to all ranks on the host of the struck one, at random times within these seconds."""
    for rank in world.ranks:
        if rank.host == struck.host:
            world.schedule(world.draw.uniform(0.0, seconds), partial(world.processes.signal, rank, name))


def _pause_host(world: World, strike: Strike) -> None:
    """Stop a virtual machine: its ranks and its agent, and so its links."""
    network = world.network
    host = world.ranks[strike.rank].host
    stopped = [rank for rank in world.ranks if rank.host == host and rank.ended is None]
    for rank in stopped:
        rank.stop(world.time)
    network.cut[host] = network.lost[host] = world.time

    def resume() -> None:
        network.cut.pop(host, None)
        network.lost.pop(host, None)
        for rank in stopped:
            world.processes.resume(rank)

    _heal(world, strike, resume)


def _stop(world: World, rank: SimulatedRank, seconds: float | None) -> None:
    """Stop a process that runs; it goes on after so many seconds, or never if that is None."""
    if rank.ended is None and rank.stopped_since(world.time) is None:
        rank.stop(world.time)
        if seconds is not None:
            world.schedule(seconds, lambda: world.processes.resume(rank))


def _heal(world: World, strike: Strike, undo: Callable[[], object]) -> None:
    """Undo a cut once its time is over, if it heals, and let the collectives that waited go on.

    If two faults cut one link, the first that heals mends it.
    """

    def heal() -> None:
        undo()
        world.deliver_all()

    if strike.seconds is not None:
        world.schedule(strike.seconds, heal)
