"""Which TCP connections of which rank are held up, and by whom?

Over a slow link bytes that are written and not acknowledged pile up towards one address; a peer that does not read
lets them pile up in its receive queue. Source: netlink's socket monitor for connections, /proc/PID/fd for whose they
are, /proc/net/snmp for the host (RFC 4022, tcpRetransSegs).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path

import psutil

from zmon.agent.sources import sock_diag
from zmon.agent.sources.reading import Ranks, Reading
from zmon.agent.sources.sock_diag import Connection, Dump
from zmon.schema.host import TcpPeer, TcpSample

MAX_PEERS = 512

_Rank = tuple[str, int]  # job id and rank


def interface_by_address() -> dict[str, str]:
    """Which interface of this host has which address."""
    return {address.address: name for name, all_of_it in psutil.net_if_addrs().items() for address in all_of_it}


class TcpSource:
    """The TCP connections of all ranks, by peer."""

    name = "tcp"
    field = "tcp"
    interval_seconds = 1.0

    def __init__(
        self,
        ranks: Ranks,
        proc: Path = Path("/proc"),
        dump: Callable[[Container[int]], Dump] = sock_diag.dump,
        interfaces: Callable[[], Mapping[str, str]] = interface_by_address,
    ) -> None:
        self._ranks, self._proc, self._dump, self._interfaces = ranks, proc, dump, interfaces
        self._searched: Mapping[int, _Rank] = {}  # the ranks whose descriptors were searched for sockets
        self._visible = False  # whether the connections of one of them can be seen from here
        self._owners: dict[int, _Rank] = {}  # by inode of the socket
        self._others: set[int] = set()  # inodes of the other sockets that the kernel told of
        self._outdated = False
        self._hidden: list[str] = []  # a line for each rank whose connections cannot be seen
        self._addresses: tuple[str, ...] = ()
        self._devices: tuple[str, ...] = ()  # that have these addresses

    def read(self) -> Reading:
        """The host's retransmissions, and one peer per rank and address. A new socket counts from the next read on."""
        ranks = dict(self._ranks())
        if self._outdated or ranks != self._searched:
            self._search(ranks)
        found = self._connections() if self._visible else ()
        peers, left_out = fullest(by_peer(found, self._owners))
        addresses = tuple(sorted({connection.address for connection in found}))
        if addresses != self._addresses:
            at = self._interfaces()
            self._addresses, self._devices = addresses, tuple(sorted({at[a] for a in addresses if a in at}))
        sample = TcpSample(retransmitted_segments(self._proc / "net/snmp"), peers, addresses, self._devices)
        return Reading(sample, (*self._hidden, *left_out))

    def _search(self, ranks: Mapping[int, _Rank]) -> None:
        """Look up whose each socket is. Descriptors are many, so only when a rank or a socket is new."""
        here = (self._proc / "self/ns/net").readlink()
        self._owners, self._hidden, self._visible = {}, [], False
        for pid, (job_id, rank) in ranks.items():
            process = self._proc / str(pid)
            try:
                if (process / "ns/net").readlink() != here:
                    self._hidden.append(
                        f"{job_id} rank {rank}: its connections are in another network namespace. "
                        "Run the agent in the same, the host's (hostNetwork) as a rule"
                    )
                    continue
                self._owners |= dict.fromkeys(socket_inodes(process / "fd"), (job_id, rank))
                self._visible = True
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            except OSError as error:
                self._hidden.append(
                    f"{job_id} rank {rank}: cannot list its sockets: {error.strerror}. Run the agent as root"
                )
        self._searched, self._outdated = ranks, False

    def _connections(self) -> list[Connection]:
        answer = self._dump(self._owners)
        self._outdated = not answer.others <= self._others  # a new socket: it may be a rank's
        self._others = answer.others
        return answer.connections


def socket_inodes(descriptors: Path) -> Iterator[int]:
    """The inodes of a process's sockets, from its /proc/PID/fd."""
    with os.scandir(descriptors) as entries:
        for entry in entries:
            try:
                target = os.readlink(entry.path)  # noqa: PTH115  # with a Path each, it takes twice as long
            except FileNotFoundError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                yield int(target[len("socket:[") : -1])


def by_peer(connections: Iterable[Connection], owners: Mapping[int, _Rank]) -> list[TcpPeer]:
    """Connections of one rank to one address, taken together."""
    groups: dict[tuple[_Rank, str], list[Connection]] = defaultdict(list)
    for connection in connections:
        groups[owners[connection.inode], connection.peer].append(connection)
    return [
        TcpPeer(
            *rank,
            peer=peer,
            num_sockets=len(group),
            send_queue_bytes=sum(c.send_queue_bytes for c in group),
            receive_queue_bytes=sum(c.receive_queue_bytes for c in group),
            retransmitted_segments=sum(c.retransmitted_segments for c in group),
            delivery_bytes_per_second=max(c.delivery_bytes_per_second or 0 for c in group) or None,
            round_trip_seconds=max(c.round_trip_seconds or 0 for c in group) or None,
            acked_bytes=None if group[0].acked_bytes is None else sum(c.acked_bytes or 0 for c in group),
            busy_seconds=None if group[0].busy_seconds is None else sum(c.busy_seconds or 0.0 for c in group),
        )
        for (rank, peer), group in sorted(groups.items())
    ]


def fullest(peers: list[TcpPeer]) -> tuple[tuple[TcpPeer, ...], tuple[str, ...]]:
    """The peers with the longest send queues, where there are too many, and a line that says so."""
    if len(peers) <= MAX_PEERS:
        return tuple(peers), ()
    kept = sorted(peers, key=attrgetter("send_queue_bytes"), reverse=True)[:MAX_PEERS]
    return tuple(kept), (f"{len(peers) - MAX_PEERS} of {len(peers)} peers, those with the shortest send queues",)


def retransmitted_segments(snmp: Path) -> int | None:
    """The host's count since boot, from /proc/net/snmp: per protocol a line of names, then one of values."""
    try:
        names, values = (line.split() for line in snmp.read_text().splitlines() if line.startswith("Tcp:"))
        return int(values[names.index("RetransSegs")])
    except (OSError, ValueError, IndexError):
        return None
