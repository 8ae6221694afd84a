"""Read the queues and retransmissions of each rank's TCP connections, by peer.

Over a slow link, unacknowledged bytes pile up in the send queue towards one address. If a peer does not read, they pile
up in its receive queue. If packets do not arrive any more, the same data times out again and again. Sources: netlink's
socket monitor for connections, /proc/PID/fd for the rank that owns each, /proc/net/snmp for the host (RFC 4022,
tcpRetransSegs).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path

import psutil

from zmon.agent.sources import sock_diag
from zmon.agent.sources.answering import answering_addresses
from zmon.agent.sources.reading import Ranks, Reading
from zmon.agent.sources.sock_diag import Connection, Dump
from zmon.process import ProcessId
from zmon.schema.host import TcpPeer, TcpSample

MAX_PEERS = 512
MAX_ASKED = 64  # addresses that are asked for an answer once a second while a job stands still

_Rank = tuple[str, int]  # job id and rank


def interface_by_address() -> dict[str, str]:
    """Return the interface of each address of this host."""
    return {address.address: name for name, addresses in psutil.net_if_addrs().items() for address in addresses}


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
        stands_still: Callable[[], bool] = lambda: False,
        answers: Callable[[Mapping[str, str]], frozenset[str]] = answering_addresses,
    ) -> None:
        """Ask the peers for an answer while `stands_still` returns True, or data to one of them times out."""
        self._ranks, self._proc, self._dump, self._interfaces = ranks, proc, dump, interfaces
        self._stands_still, self._answers = stands_still, answers
        self._searched: Mapping[ProcessId, _Rank] = {}  # the ranks whose descriptors were searched for sockets
        self._can_list = False  # the sockets of at least one rank can be listed
        self._owners: dict[int, _Rank] = {}  # the rank that owns each socket, by the socket's inode
        self._other_inodes: set[int] = set()  # inodes of the other sockets that the kernel listed
        self._is_outdated = False  # there is a new socket, whose owner is unknown
        self._hidden: list[str] = []  # one line for each rank whose connections cannot be listed
        self._addresses: tuple[str, ...] = ()
        self._devices: tuple[str, ...] = ()  # the interfaces with these addresses

    def read(self) -> Reading:
        """Return the host's retransmissions, and a peer per rank and address. A new socket counts one read later."""
        ranks = dict(self._ranks())
        if self._is_outdated or ranks != self._searched:
            self._search(ranks)
        connections = self._connections() if self._can_list else ()
        peers, left_out = fullest_peers(by_peer(connections, self._owners))
        addresses = tuple(sorted({connection.address for connection in connections}))
        if addresses != self._addresses:
            devices = self._interfaces()
            self._addresses = addresses
            self._devices = tuple(sorted({devices[address] for address in addresses if address in devices}))
        in_doubt = self._stands_still() or any(peer.num_timeouts for peer in peers)
        answers = self._peer_answers(connections) if in_doubt else None
        sample = TcpSample(retransmitted_segments(self._proc / "net/snmp"), peers, addresses, self._devices, answers)
        return Reading(sample, (*self._hidden, *left_out))

    def _peer_answers(self, connections: Iterable[Connection]) -> dict[str, bool]:
        """Ask the other hosts in these connections; return True for each address that answers, else False."""
        sources = {c.peer: c.address for c in connections if c.peer not in self._addresses}
        sources = dict(sorted(sources.items())[:MAX_ASKED])
        answers = self._answers(sources)
        return {address: address in answers for address in sources}

    def _search(self, ranks: Mapping[ProcessId, _Rank]) -> None:
        """Find the owner of each socket.

        Only called if a rank or a socket is new, or the last search failed, because descriptors are many.
        """
        own_namespace = (self._proc / "self/ns/net").readlink()
        self._owners = {}
        self._hidden = []
        self._can_list = False
        may_pass = False  # a failure that is no lack of rights, such as too many open files
        for process, (job_id, rank) in ranks.items():
            try:
                with process.opened(self._proc) as folder:
                    is_elsewhere = (folder / "ns/net").readlink() != own_namespace
                    inodes = () if is_elsewhere else tuple(socket_inodes(folder / "fd"))
                if is_elsewhere:
                    self._hidden.append(
                        f"{job_id} rank {rank}: its connections are in another network namespace. "
                        "Run the agent in the same one, usually the host's (hostNetwork)"
                    )
                    continue
                self._owners |= dict.fromkeys(inodes, (job_id, rank))
                self._can_list = True
            except (FileNotFoundError, ProcessLookupError):
                continue  # the rank has just ended
            except OSError as error:
                self._hidden.append(
                    f"{job_id} rank {rank}: cannot list its sockets: {error.strerror}. "
                    "Run the agent as root or with CAP_SYS_PTRACE"
                )
                may_pass |= not isinstance(error, PermissionError)
        self._searched, self._is_outdated = ({} if may_pass else ranks), False

    def _connections(self) -> list[Connection]:
        answer = self._dump(self._owners)
        self._is_outdated = not answer.other_inodes <= self._other_inodes  # a new socket: a rank may own it
        self._other_inodes = answer.other_inodes
        return answer.connections


def socket_inodes(descriptors: Path) -> Iterator[int]:
    """Yield the inodes of a process's sockets, from its /proc/PID/fd."""
    with os.scandir(descriptors) as entries:
        for entry in entries:
            try:
                target = os.readlink(entry.path)  # noqa: PTH115  # twice as fast as Path
            except FileNotFoundError:
                continue  # it was just closed
            if target.startswith("socket:["):
                yield int(target[len("socket:[") : -1])


def by_peer(connections: Iterable[Connection], owners: Mapping[int, _Rank]) -> list[TcpPeer]:
    """Sum up the connections of each rank to each address."""
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
            num_waiting=sum(1 for c in group if c.num_timeouts),
            num_timeouts=max(c.num_timeouts for c in group),
        )
        for (rank, peer), group in sorted(groups.items())
    ]


def fullest_peers(peers: list[TcpPeer]) -> tuple[tuple[TcpPeer, ...], tuple[str, ...]]:
    """Return at most MAX_PEERS peers, those with the longest send queues, and a line if any are left out."""
    if len(peers) <= MAX_PEERS:
        return tuple(peers), ()
    fullest = sorted(peers, key=attrgetter("send_queue_bytes"), reverse=True)[:MAX_PEERS]
    left_out = f"{len(peers) - MAX_PEERS} of {len(peers)} peers, those with the shortest send queues"
    return tuple(fullest), (left_out,)


def retransmitted_segments(snmp: Path) -> int | None:
    """Return the host's count since boot. /proc/net/snmp has a line of names and a line of values per protocol."""
    try:
        names, values = (line.split() for line in snmp.read_text().splitlines() if line.startswith("Tcp:"))
        return int(values[names.index("RetransSegs")])
    except (OSError, ValueError, IndexError):
        return None
