"""Several hosts on one machine: a network namespace each, one switch between them, and a wire of its own for zmon.

Ranks meet on `eth0`, an address of 10.77.0.0/24, through a bridge that lives in a namespace too; nothing else is on
it. Agents are asked over `mgmt0`, a pair of addresses from 198.18.0.0/15 (RFC 2544) whose other end is here. Pulling a
plug means to take the switch's end down, so that the host sees its carrier go, as with a cable. Every data link is
shaped to the same speed by a token bucket (tc-tbf(8)), both ways, so that one can be slower than the others.

All of it is in namespaces named after the process that made them: they are removed when it closes them, or by whoever
makes hosts next. Source: ip-netns(8), veth(4).
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

DATA, MANAGEMENT = "eth0", "mgmt0"  # what a host's interfaces are called on the host
LINK_BYTES_PER_SECOND = 50e6  # of a sound link: two cores carry four of them easily
MAX_HOSTS = 8

_BURST_BYTES = 32768  # what passes a shaped link at once
_QUEUE_SECONDS = 0.05  # as long as packets may wait for a shaped link; more are dropped, as a switch does
_MANAGEMENT = IPv4Address("198.18.0.0")
_MANAGEMENT_PAIRS = 1 << 15  # blocks of four addresses
# The longest that TCP waits before it sends again, where the kernel lets one choose (6.15): two minutes unless told, so
# that a link that was down for one would be back for another before any rank notices.
# And as often as it can: so many tries would not last a minute else.
_TCP = "cd /proc/sys/net/ipv4; test ! -w tcp_rto_max_ms || { echo 2000 > tcp_rto_max_ms; echo 255 > tcp_retries2; }"
_MADE = re.compile(r"zmon-(?P<pid>\d+)-\w+")  # a namespace, by the process that made it
_TIMEOUT_SECONDS = 20.0  # the kernel's lock is held for seconds where many namespaces go away


@dataclass(frozen=True, slots=True)
class Host:
    """One host: where it is, how to reach it, how to cut it off."""

    name: str
    namespace: str
    switch: str  # the namespace of what it is plugged into
    port: str  # the switch's end of its data link
    wire: str  # our end of its management link
    data_address: str  # for the ranks
    address: str  # for whoever asks its agent

    def inside(self, command: Sequence[str]) -> list[str]:
        """The same command, run on this host: its own interfaces, addresses and /sys."""
        return ["ip", "netns", "exec", self.namespace, *command]

    def cut(self) -> None:
        """Pull the plug of its data link."""
        _ip(self.switch, f"link set {self.port} down")

    def join(self) -> None:
        """Put it back; the kernel takes up to a second to believe it."""
        _ip(self.switch, f"link set {self.port} up")

    def lose(self) -> None:
        """Pull both plugs: nobody hears from the host any more, and all on it runs on."""
        self.cut()
        _ip(self.namespace, f"link set {MANAGEMENT} down")  # its own end: whoever asks it gets no answer at all

    def find(self) -> None:
        """Put both back."""
        _ip(self.namespace, f"link set {MANAGEMENT} up")
        self.join()

    def carry(self, bytes_per_second: float) -> None:
        """From now on its data link carries so much, each way."""
        bucket = f"rate {round(8 * bytes_per_second)}bit burst {_BURST_BYTES} latency {round(1000 * _QUEUE_SECONDS)}ms"
        for namespace, device in ((self.namespace, DATA), (self.switch, self.port)):
            _run(["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", *bucket.split()])


def make_hosts(names: Sequence[str]) -> dict[str, Host]:
    """Hosts that reach each other over one switch, by name. Raises UsageError without root or iproute2."""
    assert 0 < len(names) <= MAX_HOSTS
    check_possible()
    remove_leftovers()
    maker = f"zmon-{os.getpid()}"
    if f"{maker}-switch" in _namespaces():
        raise UsageError("this process has hosts already", "they were not removed", "remove them first")
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
    """End all that runs on them, and take them away."""
    hosts = list(hosts)
    for host in hosts:
        if Path("/sys/class/net", host.wire).exists():
            _ip(None, f"link delete {host.wire}")  # at once: a namespace takes its time to go, and its links with it
    _remove({name for host in hosts for name in (host.switch, host.namespace)})


def remove_leftovers() -> None:
    """Remove the hosts of processes that are gone, and whatever still runs there."""
    made = filter(None, map(_MADE.fullmatch, _namespaces()))
    _remove({found[0] for found in made if not Path("/proc", found["pid"]).exists()})


def why_not() -> str | None:
    """Why no hosts can be made here; None: they can."""
    try:
        check_possible()
    except UsageError as error:
        return str(error)
    return None


def check_possible(find: Callable[[str], str | None] = shutil.which, uid: Callable[[], int] = os.geteuid) -> None:
    """Whether this process can make namespaces and shape links. Raises UsageError."""
    missing = [program for program in ("ip", "tc") if find(program) is None]
    if missing:
        raise UsageError(f"{' and '.join(missing)} not found", "drills on several hosts need it", "install iproute2")
    if uid() != 0:
        raise UsageError(
            "drills on several hosts need root", "they make network namespaces", "run as root, or leave them out"
        )
    name = f"zmon-{os.getpid()}-{threading.get_ident()}"
    try:
        _ip(None, f"netns add {name}", f"netns delete {name}")
    except PartFailed as error:
        raise UsageError(
            "no network namespace can be made here", str(error), "run outside a container, or with CAP_SYS_ADMIN"
        ) from error


def _build(hosts: Sequence[Host]) -> None:
    switch = hosts[0].switch
    _ip(None, *(f"netns add {name}" for name in (switch, *(host.namespace for host in hosts))))
    _ip(switch, "link add name br0 type bridge", "link set br0 addrgenmode none", "link set br0 up")
    for host in hosts:
        here = IPv4Address(host.address) - 1
        _ip(
            None,
            f"link add name {host.wire} type veth peer name {MANAGEMENT} netns {host.namespace}",
            f"link set {host.wire} addrgenmode none",
            f"address add {here}/30 dev {host.wire}",
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
            f"link set {DATA} addrgenmode none",  # no IPv6, whose announcements would count as the job's bytes
            f"link set {MANAGEMENT} addrgenmode none",
            f"address add {host.data_address}/24 dev {DATA}",
            f"address add {host.address}/30 dev {MANAGEMENT}",
            "link set lo up",
            f"link set {DATA} up",
            f"link set {MANAGEMENT} up",
        )
        host.carry(LINK_BYTES_PER_SECOND)
        _run(host.inside(["sh", "-c", _TCP]))


def _namespaces() -> list[str]:
    folder = Path("/run/netns")
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def _remove(names: set[str]) -> None:
    """Links go with the namespaces they are in, as soon as no process is in there."""
    for name in sorted(names & set(_namespaces())):
        try:
            for pid in _run(["ip", "netns", "pids", name]).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            _ip(None, f"netns delete {name}")
        except PartFailed:
            if name in _namespaces():  # else somebody else removed it just now
                raise


def _free_blocks() -> Iterator[IPv4Address]:
    """Blocks of four addresses that no interface here has; each process begins elsewhere."""
    words = _run(["ip", "-4", "-brief", "address"]).split()
    taken = {int(IPv4Address(word.split("/")[0])) >> 2 for word in words if "/" in word}
    for step in range(_MANAGEMENT_PAIRS):
        first = _MANAGEMENT + 4 * ((os.getpid() * MAX_HOSTS + step) % _MANAGEMENT_PAIRS)
        if int(first) >> 2 not in taken:
            yield first


def _ip(namespace: str | None, *commands: str) -> None:
    where = [] if namespace is None else ["-n", namespace]
    _run(["ip", *where, "-batch", "-"], "\n".join(commands))


def _run(command: Sequence[str], told: str = "") -> str:
    """What it printed. Raises PartFailed."""
    try:
        done = subprocess.run(command, input=told, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines()
        raise PartFailed(f"{' '.join(command)} failed", said[0] if said else f"exit code {error.returncode}") from error
    except subprocess.TimeoutExpired as error:
        raise PartFailed(f"{' '.join(command)} does not end", "the kernel is busy", "try again") from error
    return done.stdout
