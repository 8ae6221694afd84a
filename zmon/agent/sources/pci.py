"""Which network card is nearest to this GPU?

Near as data flows: below the same root port of PCIe, so that it need not pass the processor; then at the same host
bridge; then at the same NUMA node (Documentation/ABI/testing/sysfs-bus-pci). A link from /sys/class or /sys/bus names
every bridge on the way: ../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/net/eth0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from operator import eq
from pathlib import Path

from zmon.agent.sources.sysfs import Attributes, link_target, names_in

MAX_NEAREST = 8  # a card may show as hundreds of virtual functions, all equally near

SAME_ROOT_PORT, SAME_HOST_BRIDGE, SAME_NUMA_NODE, ELSEWHERE = range(4)

_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


def pci_chain(path: str) -> tuple[str, ...]:
    """The host bridge and every PCI address on the path, the device's own last; empty for a virtual device.

    And for one on USB, a management controller's network for instance: the card on the path is not its own.
    """
    if "/usb" in path:
        return ()
    return tuple(part for part in path.split("/") if _FUNCTION.fullmatch(part) or _HOST_BRIDGE.fullmatch(part))


def pci_address(path: str) -> str | None:
    """The address of the card that the path belongs to."""
    chain = pci_chain(path)
    return chain[-1] if len(chain) > 1 else None


def distance(one: tuple[str, ...], other: tuple[str, ...], same_numa_node: bool) -> tuple[int, int]:
    """How far two devices are apart, given their chains: what they share, then the hops between them."""
    shared = len(list(takewhile(bool, map(eq, one, other))))
    hops = len(one) + len(other) - 2 * shared
    if shared >= 2:
        return SAME_ROOT_PORT, hops
    if shared == 1:
        return SAME_HOST_BRIDGE, hops
    return (SAME_NUMA_NODE if same_numa_node else ELSEWHERE), 0


def nearest_nics(sys: Path, pci: str) -> tuple[str, ...]:
    """The RDMA ports nearest to the card at that address, or the interfaces if the host has no RDMA device.

    Several if they are equally near, the first MAX_NEAREST by name; none if there is no such card.
    """
    card = pci_chain(link_target(f"{sys}/bus/pci/devices/{pci}"))
    if not card:
        return ()
    node = _numa_node(sys, pci)
    found: dict[tuple[int, int], list[str]] = {}
    for name, chain in tuple(_rdma_ports(sys)) or _interfaces(sys):
        same_node = node is not None and node == _numa_node(sys, chain[-1])
        found.setdefault(distance(card, chain, same_node), []).append(name)
    return tuple(sorted(found[min(found)])[:MAX_NEAREST]) if found else ()


def _rdma_ports(sys: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for device, chain in _class(f"{sys}/class/infiniband"):
        for port in _listing(f"{sys}/class/infiniband/{device}/ports"):
            yield f"{device}:{port}", chain


def _interfaces(sys: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    return _class(f"{sys}/class/net")


def _class(folder: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Devices of a class that sit on PCI, with their chains."""
    for name in _listing(folder):
        chain = pci_chain(link_target(f"{folder}/{name}"))
        if len(chain) > 1:
            yield name, chain


def _listing(folder: str) -> list[str]:
    try:
        return names_in(folder)
    except OSError:
        return []


def _numa_node(sys: Path, pci: str) -> int | None:
    try:
        with Attributes(pci, f"{sys}/bus/pci/devices/{pci}") as files:
            node = files.number("numa_node")
    except OSError:
        return None
    return None if node is None or node < 0 else node  # -1: the firmware does not tell
