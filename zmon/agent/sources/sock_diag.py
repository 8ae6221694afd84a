"""Read the state of each open TCP connection in this network namespace from the kernel.

It sends one request per address family to netlink's socket monitor (sock_diag(7)). The answer has one message per
connection: a struct inet_diag_msg, then attributes, of which INET_DIAG_INFO holds a struct tcp_info. Layout:
linux/inet_diag.h and linux/tcp.h; numbers are in the host's byte order, addresses in the network's. It needs no
privilege.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Container, Iterator
from typing import NamedTuple

from zmon.errors import SourceUnavailable

TIMEOUT_SECONDS = 1.0  # timeout of each part of an answer
MAX_OTHERS = 30_000  # connections of other processes; 20,000 cost 5.5 MiB and 46 ms per read

_NETLINK_SOCK_DIAG = 4
_NLMSG_ERROR, _NLMSG_DONE, _SOCK_DIAG_BY_FAMILY = 2, 3, 20
_NLM_F_REQUEST, _NLM_F_DUMP, _NLM_F_DUMP_INTR = 0x1, 0x300, 0x10
_INET_DIAG_INFO = 2
# ESTABLISHED, SYN_SENT, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK and CLOSING: the others have no peer (LISTEN, CLOSE)
# or belong to no process (SYN_RECV, TIME_WAIT).
_STATES = sum(1 << state for state in (1, 2, 4, 5, 8, 9, 11))
_MAX_PART_BYTES = 65536  # the kernel's parts are at most 32 KiB

_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence number, port
_CODE = struct.Struct("=i")  # start of NLMSG_ERROR and NLMSG_DONE: 0, or a negative errno
_REQUEST = struct.Struct("=BBBxI48x")  # struct inet_diag_req_v2: family, protocol, attributes, states; any address
_ANSWER = struct.Struct("=B7x16s16s16xIIII")  # struct inet_diag_msg: family, own, peer, both queues, uid, inode
_INODE = struct.Struct("=68xI")  # struct inet_diag_msg: only the inode
_ATTRIBUTE = struct.Struct("=HH")  # struct nlattr: length, type
# struct tcp_info: tcpi_retransmits, tcpi_probes, tcpi_unacked, tcpi_rtt in µs, tcpi_total_retrans
_TCP_INFO = struct.Struct("=2xBB20xI40xI28xI")
# struct tcp_info since Linux 4.9: tcpi_delivery_rate in bytes per second
_DELIVERY_RATE = struct.Struct("=160xQ")
# struct tcp_info since Linux 4.10: tcpi_bytes_acked, tcpi_bytes_received, tcpi_busy_time and tcpi_rwnd_limited in µs
_BYTES_AND_BUSY_TIME = struct.Struct("=120xQQ32xQQ")
_IPV4_MAPPED = bytes(10) + b"\xff\xff"

_REFUSALS = {  # likely cause and next step
    errno.EPERM: ("netlink is not permitted", "allow AF_NETLINK in the container's seccomp profile"),
    errno.EACCES: ("netlink is not permitted", "allow netlink sockets in the host's security policy"),
    errno.EAFNOSUPPORT: ("AF_NETLINK is not available", "run the agent where AF_NETLINK is allowed"),
    errno.EPROTONOSUPPORT: ("the kernel has no socket monitor", "load it on the host: modprobe inet_diag"),
    errno.ENOENT: ("the kernel's socket monitor has no TCP module", "load it on the host: modprobe tcp_diag"),
}


class Connection(NamedTuple):
    """One connection of a process."""

    inode: int  # inode of its socket, as in /proc/PID/fd
    address: str
    peer: str
    send_queue_bytes: int  # written, not yet acknowledged
    receive_queue_bytes: int  # arrived, not yet read
    retransmitted_segments: int
    round_trip_seconds: float | None  # None: not measured yet
    delivery_bytes_per_second: float | None  # None: not measured yet, or Linux < 4.9
    acked_bytes: int | None = None  # total; None: Linux < 4.10
    busy_seconds: float | None = None  # total time in which data was unacknowledged and the peer had room for it
    num_timeouts: int = 0  # in a row, see `_num_timeouts`
    received_bytes: int | None = None  # total; None: Linux < 4.10


class Dump(NamedTuple):
    """The wanted connections, and the inodes of the sockets of all other connections."""

    connections: list[Connection]
    other_inodes: set[int]


def dump(wanted: Container[int]) -> Dump:
    """Return the connections with these inodes. Raises OSError if the kernel's answer is missing or incomplete."""
    connections: list[Connection] = []
    other_inodes: set[int] = set()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
            netlink.settimeout(TIMEOUT_SECONDS)
            for message in _messages(netlink):
                (inode,) = _INODE.unpack_from(message)
                if inode in wanted:
                    connections.append(parse_connection(message))
                elif inode:  # 0: no process has accepted it yet, or it was closed
                    other_inodes.add(inode)
                    if len(other_inodes) > MAX_OTHERS:
                        raise OSError(errno.EOVERFLOW, f"more than {MAX_OTHERS} TCP connections of other processes")
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        raise SourceUnavailable("cannot ask the kernel for TCP connections", *_REFUSALS[error.errno]) from error
    return Dump(connections, other_inodes)


def _messages(netlink: socket.socket) -> Iterator[bytes]:
    for family in (socket.AF_INET, socket.AF_INET6):
        netlink.send(_dump_request(family))
        has_more = True
        while has_more:
            messages, has_more = split_messages(netlink.recv(_MAX_PART_BYTES))
            yield from messages


def _dump_request(family: int) -> bytes:
    """Return the request for all open TCP connections of an address family."""
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _STATES)
    flags = _NLM_F_REQUEST | _NLM_F_DUMP
    return _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, flags, 0, 0) + request


def split_messages(part: bytes) -> tuple[list[bytes], bool]:
    """Return the messages in a part of an answer, and True if more parts follow. Raises OSError if it is not valid."""
    messages: list[bytes] = []
    offset = 0
    while offset < len(part):
        length, kind, flags, *_ = _HEADER.unpack_from(part, offset)
        begin, end = offset + _HEADER.size, offset + length
        if not begin <= end <= len(part):
            raise OSError(errno.EBADMSG, "the kernel's answer is cut short")
        if flags & _NLM_F_DUMP_INTR:
            raise OSError(errno.EINTR, "the connections changed while the kernel listed them")
        if kind in (_NLMSG_DONE, _NLMSG_ERROR):
            (code,) = _CODE.unpack_from(part, begin)
            if code:
                raise OSError(-code, os.strerror(-code))
            return messages, False
        messages.append(part[begin:end])
        offset += (length + 3) & ~3  # messages are aligned to 4 bytes
    return messages, True


def parse_connection(message: bytes) -> Connection:
    """Parse a message: a struct inet_diag_msg and attributes. Raises OSError if the struct tcp_info is too short."""
    family, local, peer, receive_queue, send_queue, _, inode = _ANSWER.unpack_from(message)
    info = _attribute(message, _INET_DIAG_INFO)
    if len(info) < _TCP_INFO.size:
        raise OSError(errno.EBADMSG, "the kernel's answer for a connection is too short")
    timeouts, probes, unacknowledged, round_trip, retransmitted = _TCP_INFO.unpack_from(info)
    (delivery,) = _DELIVERY_RATE.unpack_from(info) if len(info) >= _DELIVERY_RATE.size else (0,)
    acked, received, busy, no_room = None, None, 0, 0
    if len(info) >= _BYTES_AND_BUSY_TIME.size:
        acked, received, busy, no_room = _BYTES_AND_BUSY_TIME.unpack_from(info)
    return Connection(
        inode=inode,
        address=_address(family, local),
        peer=_address(family, peer),
        send_queue_bytes=send_queue,
        receive_queue_bytes=receive_queue,
        retransmitted_segments=retransmitted,
        round_trip_seconds=round_trip / 1e6 or None,
        delivery_bytes_per_second=delivery or None,
        acked_bytes=acked,
        busy_seconds=None if acked is None else (busy - no_room) / 1e6,
        num_timeouts=_num_timeouts(timeouts, probes, unacknowledged, send_queue),
        received_bytes=received,
    )


def _num_timeouts(timeouts: int, probes: int, unacknowledged: int, send_queue: int) -> int:
    """Return how many times in a row the oldest data under way, or the request to connect, has timed out.

    If no data is under way, because the peer has no room or there is no route, return the number of probes in a row
    without an answer.
    """
    if unacknowledged:
        return timeouts
    return probes if send_queue else 0


def _attribute(message: bytes, wanted: int) -> bytes:
    offset = _ANSWER.size
    while offset + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, offset)
        if kind == wanted:
            return message[offset + _ATTRIBUTE.size : offset + length]
        offset += max((length + 3) & ~3, _ATTRIBUTE.size)
    return b""


def _address(family: int, packed: bytes) -> str:
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, packed[:4])
    if packed.startswith(_IPV4_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)
