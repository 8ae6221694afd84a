"""Make several hosts on one machine: each has a network namespace, a link to a common switch, and a management link.

Ranks communicate over `eth0`, with addresses in 10.77.0.0/24, through a bridge that has its own namespace. Only ranks
use this network. The hub asks the agents over `mgmt0`. The other end of `mgmt0` is in the namespace of this process,
and both ends have addresses from 198.18.0.0/15 (RFC 2544). To cut a link, the switch's end is taken down, so that the
host loses its carrier as with a pulled cable. A token bucket (tc-tbf(8)) shapes every data link to the same bandwidth,
both ways, so that a link can be made slower than the others.

The namespaces are named after the process that made them. That process removes them. If it was killed, the next process
that makes hosts removes them. Source: ip-netns(8), veth(4).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from zmon.errors import PartFailed, UsageError

DATA, MANAGEMENT = "eth0", "mgmt0"  # the names of the interfaces on the host
LINK_BYTES_PER_SECOND = 50e6  # bandwidth of a healthy link; two cores carry four such links easily
MAX_HOSTS = 8

_BURST_BYTES = 32768  # bucket of a shaped link: this much passes at once
_QUEUE_SECONDS = 0.05  # packets wait at most this long for a shaped link; others are dropped, as a switch does
_NOWHERE = "02:00:00:00:00:fe"  # an Ethernet address that no host has
_MANAGEMENT = IPv4Address("198.18.0.0")
_MANAGEMENT_PAIRS = 1 << 15  # blocks of four addresses
# Sets the longest time that TCP waits before it retransmits to 2 s, if the kernel allows it (since 6.15). With the
# default of two minutes, ranks would notice up to a minute too late that a link which was down for a minute is back.
# The number of retries is the maximum, because 15 retries (the default) of 2 s would not last a minute.
_TCP = "cd /proc/sys/net/ipv4; test ! -w tcp_rto_max_ms || { echo 2000 > tcp_rto_max_ms; echo 255 > tcp_retries2; }"
_NAMESPACE_NAME = re.compile(r"zmon-(?P<pid>\d+)-\w+")  # contains the pid of the process that made the namespace
_TIMEOUT_SECONDS = 20.0  # the kernel holds a lock for seconds while it removes many namespaces


@dataclass(frozen=True, slots=True)
class Host:
    """One host: its namespaces, its addresses, and methods to cut it off."""

    name: str
    namespace: str
    switch: str  # the namespace of the switch
    port: str  # the switch's end of the data link of the host
    wire: str  # the end of the management link of the host that is in the namespace of this process
    data_address: str  # address that ranks use
    address: str  # address that clients of its agent use

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` on this host, with its own interfaces, addresses and /sys."""
        return ["ip", "netns", "exec", self.namespace, *command]

    def cut(self) -> None:
        """Take its data link down."""
        _ip(self.switch, f"link set {self.port} down")

    def reconnect(self) -> None:
        """Take its data link up again; the kernel reports the carrier up to a second later."""
        _ip(self.switch, f"link set {self.port} up")

    def isolate(self) -> None:
        """Take both links down. The host cannot be reached, and its processes go on."""
        self.cut()
        _ip(self.namespace, f"link set {MANAGEMENT} down")  # the host's end, so that a client gets no answer at all

    def rejoin(self) -> None:
        """Take both links up again."""
        _ip(self.namespace, f"link set {MANAGEMENT} up")
        self.reconnect()

    def lose_packets_to(self, other: Host) -> None:
        """Lose every packet from this host to the other: they go to an Ethernet address that no host has."""
        _ip(self.namespace, f"neigh replace {other.data_address} lladdr {_NOWHERE} dev {DATA} nud permanent")

    def pass_packets_to(self, other: Host) -> None:
        """Let packets to the other host pass again."""
        _ip(self.namespace, f"neigh delete {other.data_address} dev {DATA}")

    def set_bandwidth_to(self, other: Host, bytes_per_second: float) -> None:
        """Limit what this host sends to the other; `set_bandwidth` removes this limit."""
        queue = ["tc", "-n", self.namespace, "qdisc", "replace", "dev", DATA]
        classes = ["tc", "-n", self.namespace, "class", "replace", "dev", DATA, "parent", "1:"]
        _run([*queue, "root", "handle", "1:", "htb", "default", "1"])
        for number, rate in ((1, LINK_BYTES_PER_SECOND), (2, bytes_per_second)):
            limit = round(_BURST_BYTES + rate * _QUEUE_SECONDS)
            burst = f"rate {round(8 * rate)}bit burst {_BURST_BYTES} quantum {_BURST_BYTES}"
            _run([*classes, "classid", f"1:{number}", "htb", *burst.split()])
            _run([*queue, "parent", f"1:{number}", "bfifo", "limit", str(limit)])
        match = f"protocol ip prio 1 u32 match ip dst {other.data_address}/32 flowid 1:2"
        _run(["tc", "-n", self.namespace, "filter", "add", "dev", DATA, "parent", "1:", *match.split()])

    def set_bandwidth(self, bytes_per_second: float) -> None:
        """Limit its data link to a bandwidth, each way."""
        bucket = f"rate {round(8 * bytes_per_second)}bit burst {_BURST_BYTES} latency {round(1000 * _QUEUE_SECONDS)}ms"
        for namespace, device in ((self.namespace, DATA), (self.switch, self.port)):
            _run(["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", *bucket.split()])


def make_hosts(names: Sequence[str]) -> dict[str, Host]:
    """Make hosts that reach each other over one switch; return them by name.

    Raises UsageError without root or iproute2.
    """
    assert 0 < len(names) <= MAX_HOSTS
    check_possible()
    remove_leftovers()
    maker = f"zmon-{os.getpid()}"
    if f"{maker}-switch" in _namespaces():
        raise UsageError("this process already has hosts", "they were not removed", "remove them first")
    blocks = _free_blocks()
    hosts = {
        name: Host(
            name=name,
            namespace=f"{maker}-{index}",
            switch=f"{maker}-switch",
            port=f"port{index}",
            wire=f"z{os.getpid()}-{index}",
            data_address=f"10.77.0.{index + 1}",
            address=str(next(blocks) + 2),
        )
        for index, name in enumerate(names)
    }
    try:
        _build(list(hosts.values()))
    except BaseException:
        remove_hosts(hosts.values())
        raise
    return hosts


def remove_hosts(hosts: Iterable[Host]) -> None:
    """Kill the processes on these hosts, and remove the hosts."""
    hosts = list(hosts)
    for host in hosts:
        if Path("/sys/class/net", host.wire).exists():
            # Otherwise the link may stay for seconds after its namespace is deleted.
            _ip(None, f"link delete {host.wire}")
    _remove({name for host in hosts for name in (host.switch, host.namespace)})


def remove_leftovers() -> None:
    """Remove the hosts of processes that have ended, and kill the processes that still run on them."""
    matches = filter(None, map(_NAMESPACE_NAME.fullmatch, _namespaces()))
    _remove({match[0] for match in matches if not Path("/proc", match["pid"]).exists()})


def why_not() -> str | None:
    """Return the reason why hosts cannot be made on this machine, or None if they can be."""
    try:
        check_possible()
    except UsageError as error:
        return str(error)
    return None


def check_possible(find: Callable[[str], str | None] = shutil.which, uid: Callable[[], int] = os.geteuid) -> None:
    """Raise UsageError unless this process can make namespaces and shape links."""
    missing = [program for program in ("ip", "tc") if find(program) is None]
    if missing:
        raise UsageError(
            f"{' and '.join(missing)} not found", "drills on several hosts need iproute2", "install iproute2"
        )
    if uid() != 0:
        raise UsageError(
            "drills on several hosts need root",
            "they make network namespaces",
            "run as root, or leave these drills out",
        )
    name = f"zmon-{os.getpid()}-{threading.get_ident()}"
    try:
        _ip(None, f"netns add {name}", f"netns delete {name}")
    except PartFailed as error:
        raise UsageError(
            "cannot make a network namespace", str(error), "run outside a container, or with CAP_SYS_ADMIN"
        ) from error


def _build(hosts: Sequence[Host]) -> None:
    """Make the namespaces of the switch and of the hosts, and the links between them."""
    switch = hosts[0].switch
    _ip(None, *(f"netns add {name}" for name in (switch, *(host.namespace for host in hosts))))
    _ip(switch, "link add name br0 type bridge", "link set br0 addrgenmode none", "link set br0 up")
    for host in hosts:
        local_address = IPv4Address(host.address) - 1
        _ip(
            None,
            f"link add name {host.wire} type veth peer name {MANAGEMENT} netns {host.namespace}",
            f"link set {host.wire} addrgenmode none",
            f"address add {local_address}/30 dev {host.wire}",
            f"link set {host.wire} up",
        )
        _ip(
            switch,
            f"link add name {host.port} type veth peer name {DATA} netns {host.namespace}",
            f"link set {host.port} addrgenmode none",
            f"link set {host.port} master br0 up",
        )
        _ip(
            host.namespace,
            f"link set {DATA} addrgenmode none",  # no IPv6: its announcements would count as bytes of the job
            f"link set {MANAGEMENT} addrgenmode none",
            f"address add {host.data_address}/24 dev {DATA}",
            f"address add {host.address}/30 dev {MANAGEMENT}",
            "link set lo up",
            f"link set {DATA} up",
            f"link set {MANAGEMENT} up",
        )
        host.set_bandwidth(LINK_BYTES_PER_SECOND)
        _run(host.inside(["sh", "-c", _TCP]))


def _namespaces() -> list[str]:
    directory = Path("/run/netns")
    return sorted(entry.name for entry in directory.iterdir()) if directory.is_dir() else []


def _remove(names: set[str]) -> None:
    """Remove namespaces, and with them their links, after killing the processes in them."""
    for name in sorted(names & set(_namespaces())):
        try:
            for pid in _run(["ip", "netns", "pids", name]).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            _ip(None, f"netns delete {name}")
        except PartFailed:
            if name in _namespaces():  # else another process has just removed it
                raise


def _free_blocks() -> Iterator[IPv4Address]:
    """Yield blocks of four addresses that no interface of this machine uses; processes start at different blocks."""
    words = _run(["ip", "-4", "-brief", "address"]).split()
    used_blocks = {int(IPv4Address(word.split("/")[0])) >> 2 for word in words if "/" in word}
    for step in range(_MANAGEMENT_PAIRS):
        first = _MANAGEMENT + 4 * ((os.getpid() * MAX_HOSTS + step) % _MANAGEMENT_PAIRS)
        if int(first) >> 2 not in used_blocks:
            yield first


def _ip(namespace: str | None, *commands: str) -> None:
    options = [] if namespace is None else ["-n", namespace]
    _run(["ip", *options, "-batch", "-"], "\n".join(commands))


def _run(command: Sequence[str], stdin: str = "") -> str:
    """Run a command and return its stdout. Raises PartFailed."""
    try:
        result = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        cause = lines[0] if lines else f"exit code {error.returncode}"
        raise PartFailed(f"{' '.join(command)} failed", cause) from error
    except subprocess.TimeoutExpired as error:
        raise PartFailed(f"{' '.join(command)} does not end", "the kernel is busy", "try again") from error
    return result.stdout
