"""The samples that an agent takes of the hardware of its simulated host. Pure.

A host has one interface, and the connections of its ranks.
"""

from __future__ import annotations

from lab.simulator.network import address
from lab.simulator.world import World
from zmon.schema.host import HostLoad, HostSample, HostWindow, NicSample, TcpPeer, TcpSample

DEVICE = "eth0"
WINDOW_SECONDS, RECENT_SECONDS = 60.0, 4.0  # as zmon/hub/agent_link.py compares samples
ACKED_BYTES_PER_SECOND = 1e6
BUSY_RATIO = 0.01  # share of the time in which a connection has bytes under way
RETRANSMITS_PER_SECOND = 2.0  # the kernel doubles the interval; in the first seconds it is short
ASK_SECONDS = 1.5  # an agent asks other hosts for an answer once a rank has been in a step for this long
QUEUE_BYTES = 65_536
_IDLE = HostLoad({}, 64 << 30, 128 << 30, 0, pressure_seconds={"cpu": 0.0})  # no process ever waits for a core


def host_window(world: World, host: int, name: str, job: str, look: float) -> HostWindow:
    """Return the samples of a host at the time `look`, a minute before, and some seconds before."""
    before = max(0.0, look - WINDOW_SECONDS)
    recent = max(0.0, look - RECENT_SECONDS)
    return HostWindow(
        host=name,
        seconds=look - before,
        before=_sample(world, host, job, before),
        now=_sample(world, host, job, look),
        worked=frozenset((DEVICE,)),
        recent=_sample(world, host, job, recent).tcp,
    )


def _sample(world: World, host: int, job: str, time: float) -> HostSample:
    cut = world.network.cut.get(host)
    up = cut is None or time < cut
    nic = NicSample(DEVICE, "tcp", up, 1.25e9, 0, 0, {}, pci="0000:3b:00.0")
    return HostSample(load=_IDLE, nics=(nic,), tcp=_tcp(world, host, job, time))


def _tcp(world: World, host: int, job: str, time: float) -> TcpSample:
    ranks = [rank for rank in world.ranks if rank.host == host and rank.is_alive(time)]
    peers = tuple(
        _peer(world, rank.rank, host, other, job, time) for rank in ranks for other in range(world.shape.hosts)
        if other != host
    )  # fmt: skip
    total = sum(peer.retransmitted_segments for peer in peers)
    answers = {
        address(other): world.network.cut_since(host, other) is None
        for other in range(world.shape.hosts)
        if other != host
    }
    is_late = any(time - rank.at(time).step_since > ASK_SECONDS for rank in ranks)
    return TcpSample(total, peers, (address(host),), (DEVICE,), answers=answers if is_late else None)


def _peer(world: World, rank: int, host: int, other: int, job: str, time: float) -> TcpPeer:
    cut = world.network.cut_since(host, other)
    stuck_seconds = 0.0 if cut is None else max(0.0, time - cut)
    moving_seconds = time if cut is None else min(time, cut)
    num_retransmits = int(stuck_seconds * RETRANSMITS_PER_SECOND)
    return TcpPeer(
        job_id=job,
        rank=rank,
        peer=address(other),
        num_sockets=sum(1 for peer in world.ranks if peer.host == other and peer.is_alive(time)),
        send_queue_bytes=QUEUE_BYTES if stuck_seconds > 0 else 0,
        receive_queue_bytes=0,
        retransmitted_segments=num_retransmits,
        delivery_bytes_per_second=None,
        round_trip_seconds=None,
        acked_bytes=int(moving_seconds * ACKED_BYTES_PER_SECOND),
        busy_seconds=moving_seconds * BUSY_RATIO + stuck_seconds,
        num_waiting=1 if stuck_seconds > 0 else 0,
        num_timeouts=num_retransmits,
    )
