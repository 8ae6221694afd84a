"""The asker: on this machine, the owner of the socket at the other end; elsewhere, whoever has the role.

The kernel lists each TCP socket of this machine with the uid of its owner in `/proc/net/tcp` and `/proc/net/tcp6`
(proc_net(5)). A connection from another machine has no such line, so nobody can pretend to be a local user.

A program on loopback may forward requests of somebody far away. `kubectl port-forward` comes from the container
runtime, as root, and ports of rootless containers from their user. So in a container the process that has the socket
must be visible, with the network and the files of this container. On a node of Kubernetes, root counts as unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from aiohttp import web

from zmon.schema.api import Endpoint
from zmon.schema.api.endpoint import Role
from zmon.web.access import ROLES
from zmon.web.server import route

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer")
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_CREDENTIALS = struct.Struct("3i")  # pid, uid and gid
_CONTAINER_MARKS = (".dockerenv", "run/.containerenv")  # of Docker and of Podman
_KUBELET = "var/lib/kubelet"
_OVERFLOW_UID = 65534  # stands for every user without a number in this user namespace (user_namespaces(7))


class _Address(NamedTuple):
    """One end of a TCP connection."""

    ip: IpAddress
    port: int


class Asker(NamedTuple):
    """The user who sent a request."""

    uid: int | None
    reason: str = ""  # why the user is unknown
    roles: frozenset[Role] = frozenset()  # by `--web.config.file`; empty without it

    @property
    def may_read_evidence(self) -> bool:
        """True if the asker may read what any job prints."""
        return "evidence" in self.roles


def route_for(
    endpoint: Endpoint[Request, Answer],
    handler: Callable[[Request, Asker], Awaitable[Answer]],
    turn: Callable[[Request], AbstractAsyncContextManager[None]] = lambda _: nullcontext(),
) -> web.RouteDef:
    """Return the route of an endpoint whose handler must know who asks; `turn` as for `route`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        asker = await asker_of(request)

        async def handle(typed: Request) -> Answer:
            return await handler(typed, asker)

        return await route(endpoint, handle, turn=turn).handler(request)

    return web.route(endpoint.method, endpoint.path, answer)


async def asker_of(request: web.Request) -> Asker:
    """Return the user who sent a request."""
    transport = request.transport
    connection = transport.get_extra_info("socket") if transport else None
    if connection is not None and connection.family == socket.AF_UNIX:
        return Asker(_uid_at_other_end(connection), roles=ROLES.get())
    peer = transport.get_extra_info("peername") if transport else None
    server = transport.get_extra_info("sockname") if transport else None
    asker = await asyncio.to_thread(find_asker, peer, server)
    return asker._replace(roles=ROLES.get())


def _uid_at_other_end(connection: socket.socket) -> int:
    """Return the user at the other end of a Unix socket (SO_PEERCRED, unix(7))."""
    _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def find_asker(
    peer: tuple[object, ...] | None,
    server: tuple[object, ...] | None,
    proc: Path = Path("/proc"),
    root: Path = Path("/"),
    environ: Mapping[str, str] = os.environ,
) -> Asker:
    """Return the owner of the socket at the other end, given both addresses as the socket module has them."""
    if not peer or not server:
        return Asker(None, "the connection is closed")
    remote = _address(str(peer[0]), int(str(peer[1])))
    local = _address(str(server[0]), int(str(server[1])))
    if not remote.ip.is_loopback:
        return Asker(None, f"{remote.ip} is not a loopback address")
    is_in_container = "KUBERNETES_SERVICE_HOST" in environ or any((root / mark).exists() for mark in _CONTAINER_MARKS)
    for name in ("tcp", "tcp6"):
        try:
            table = (proc / "net" / name).read_text()
        except OSError:
            continue  # the kernel has no IPv6
        for uid, inode in _owners(table, remote, local):
            if uid == _OVERFLOW_UID and not _has_all_users(proc):
                return Asker(None, "the user has no number in the user namespace of this process")
            if is_in_container and not _is_of_this_container(inode, proc):
                return Asker(None, "the request was forwarded into this container, or its process is another user's")
            if uid == 0 and not is_in_container and (root / _KUBELET).exists():
                return Asker(None, "on a node of Kubernetes, requests of root may be forwarded (kubectl port-forward)")
            return Asker(uid)
    return Asker(None, f"no process of this machine has port {remote.port}")


def _owners(table: str, remote: _Address, local: _Address) -> Iterator[tuple[int, str]]:
    """Yield owner and inode of each socket of a table with these ends, if a process has it open."""
    port = f":{remote.port:04X}"  # compared first, because addresses take longer
    for line in table.splitlines()[1:]:
        _, own_end, other_end, _, _, _, _, uid, _, inode, *_ = line.split()
        is_candidate = own_end.endswith(port) and inode != "0"
        if is_candidate and (_table_address(own_end), _table_address(other_end)) == (remote, local):
            yield int(uid), inode


def _is_of_this_container(inode: str, proc: Path) -> bool:
    """Return True if a process with the network and the files of this one has the socket open.

    From a pod, a container runtime is invisible or has other files. One of its threads may enter the network of a pod
    for a moment, but its process does not.
    """
    namespaces_here = _namespaces(proc / "self")
    for folder in (entry for entry in proc.iterdir() if entry.name.isdecimal()):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if _namespaces(folder) != namespaces_here:
                continue
            if f"socket:[{inode}]" in _open_files(folder / "fd"):
                return True
    return False


def _open_files(descriptors: Path) -> Iterator[str]:
    with os.scandir(descriptors) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # it was just closed
                yield os.readlink(entry.path)  # noqa: PTH115  # twice as fast as Path


def _namespaces(process: Path) -> tuple[str, ...]:
    return tuple(os.readlink(process / "ns" / name) for name in ("net", "mnt"))  # noqa: PTH115


def _table_address(text: str) -> _Address:
    """Return an address of the table: words of 32 bits in the order of this machine, then the port."""
    words, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(words[start : start + 8])[::-1] for start in range(0, len(words), 8))
    return _Address(_unwrapped(ipaddress.ip_address(raw)), int(port, 16))


def _address(host: str, port: int) -> _Address:
    return _Address(_unwrapped(ipaddress.ip_address(host.partition("%")[0])), port)


def _unwrapped(address: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 address wraps, such as ::ffff:127.0.0.1; else the address."""
    return getattr(address, "ipv4_mapped", None) or address


def _has_all_users(proc: Path) -> bool:
    """Return True if this process runs in a user namespace with all users, as the first one is."""
    return (proc / "self/uid_map").read_text().split() == ["0", "0", "4294967295"]
