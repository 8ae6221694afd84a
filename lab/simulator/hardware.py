"""The hardware of simulated hosts: the links between them, and what an agent samples of its own host. Pure.

A host has one interface, and the connections of its ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from lab.simulator.composition import Shape
from zmon.schema.host import HostLoad, HostSample, HostWindow, NicSample, TcpPeer, TcpSample

if TYPE_CHECKING:
    from lab.simulator.world import World

DEVICE = "eth0"
WINDOW_SECONDS, RECENT_SECONDS = 60.0, 4.0  # as zmon/hub/agent_link.py compares samples
ACKED_BYTES_PER_SECOND = 1e6
BUSY_RATIO = 0.01  # share of the time in which a connection has bytes under way
RETRANSMITS_PER_SECOND = 2.0  # the kernel doubles the interval; in the first seconds it is short
ASKED_SECONDS = 1.5  # an agent asks other hosts for an answer once a rank has been in a step for this long
QUEUE_BYTES = 65_536
_IDLE = HostLoad({}, 64 << 30, 128 << 30, 0, pressure_seconds={"cpu": 0.0})  # no process ever waits for a core


@dataclass
class Network:
    """The hosts and pairs of hosts that are cut off, with the time of the cut."""

    shape: Shape
    cut: dict[int, float] = field(default_factory=dict)
    pairs: dict[frozenset[int], float] = field(default_factory=dict)
    lost: dict[int, float] = field(default_factory=dict)  # hosts whose agent cannot be reached either

    def are_connected(self, hosts: Iterable[int]) -> bool:
        """Return True if all of these hosts reach each other."""
        if not self.cut and not self.pairs:
            return True
        return all(self.cut_since(*pair) is None for pair in combinations(sorted(set(hosts)), 2))

    def cut_since(self, host: int, other: int) -> float | None:
        """Return since when two hosts do not reach each other; None if they do."""
        times = [self.cut.get(host), self.cut.get(other), self.pairs.get(frozenset((host, other)))]
        return min((time for time in times if time is not None), default=None)


def address(host: int) -> str:
    """Return the address of a host."""
    return f"10.0.0.{host + 1}"


def host_window(world: World, host: int, name: str, job: str, look: float) -> HostWindow:
    """Return the hardware of a host now and a minute ago."""
    before, recent = max(0.0, look - WINDOW_SECONDS), max(0.0, look - RECENT_SECONDS)
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
    answers = {address(n): world.network.cut_since(host, n) is None for n in range(world.shape.hosts) if n != host}
    stands = any(time - rank.at(time).step_since > ASKED_SECONDS for rank in ranks)
    return TcpSample(total, peers, (address(host),), (DEVICE,), answers=answers if stands else None)


def _peer(world: World, rank: int, host: int, other: int, job: str, time: float) -> TcpPeer:
    cut = world.network.cut_since(host, other)
    stuck = 0.0 if cut is None else max(0.0, time - cut)
    moved = min(time, time if cut is None else cut)
    return TcpPeer(
        job_id=job,
        rank=rank,
        peer=address(other),
        num_sockets=sum(1 for each in world.ranks if each.host == other and each.is_alive(time)),
        send_queue_bytes=QUEUE_BYTES if stuck > 0 else 0,
        receive_queue_bytes=0,
        retransmitted_segments=int(stuck * RETRANSMITS_PER_SECOND),
        delivery_bytes_per_second=None,
        round_trip_seconds=None,
        acked_bytes=int(moved * ACKED_BYTES_PER_SECOND),
        busy_seconds=moved * BUSY_RATIO + stuck,
        num_waiting=1 if stuck > 0 else 0,
        num_timeouts=int(stuck * RETRANSMITS_PER_SECOND),
    )
