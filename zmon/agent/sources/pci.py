"""Find the network cards nearest to a GPU.

Cards below the same PCIe root port are nearest, because data need not pass the processor. Cards at the same host
bridge follow, then cards at the same NUMA node (Documentation/ABI/testing/sysfs-bus-pci). A link from /sys/class or
/sys/bus names every bridge on the way: ../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/net/eth0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from operator import eq
from pathlib import Path

from zmon.agent.sources.sysfs import Attributes, link_target, names_in
from zmon.format import plain

MAX_NEAREST = 8  # a card may appear as hundreds of virtual functions, all equally near

SAME_ROOT_PORT, SAME_HOST_BRIDGE, SAME_NUMA_NODE, ELSEWHERE = range(4)

_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


def pci_chain(path: str) -> tuple[str, ...]:
    """Return the host bridge and every PCI address on the path, the device's own last; empty for a virtual device.

    Also empty for a USB device, such as a management controller's network: the card on its path is not its own.
    """
    if "/usb" in path:
        return ()
    return tuple(part for part in path.split("/") if _FUNCTION.fullmatch(part) or _HOST_BRIDGE.fullmatch(part))


def pci_address(path: str) -> str | None:
    """Return the address of the card at this path; None for a virtual or USB device."""
    chain = pci_chain(path)
    return chain[-1] if len(chain) > 1 else None


def distance(first: tuple[str, ...], second: tuple[str, ...], same_numa_node: bool) -> tuple[int, int]:
    """Return the distance between two devices, given their chains: a level such as SAME_ROOT_PORT, then the hops."""
    shared = len(list(takewhile(bool, map(eq, first, second))))
    hops = len(first) + len(second) - 2 * shared
    if shared >= 2:
        return SAME_ROOT_PORT, hops
    if shared == 1:
        return SAME_HOST_BRIDGE, hops
    return (SAME_NUMA_NODE if same_numa_node else ELSEWHERE), 0


def nearest_nics(sys: Path, pci: str) -> tuple[str, ...]:
    """Return the RDMA ports nearest to the card at that address, or the interfaces if the host has no RDMA device.

    If several are equally near, all are returned, up to MAX_NEAREST by name. Empty if there is no such card.
    """
    card = pci_chain(link_target(f"{sys}/bus/pci/devices/{pci}"))
    if not card:
        return ()
    node = _numa_node(sys, pci)
    by_distance: dict[tuple[int, int], list[str]] = {}
    for name, chain in tuple(_rdma_ports(sys)) or _class(f"{sys}/class/net"):
        same_node = node is not None and node == _numa_node(sys, chain[-1])
        by_distance.setdefault(distance(card, chain, same_node), []).append(name)
    return tuple(sorted(by_distance[min(by_distance)])[:MAX_NEAREST]) if by_distance else ()


def _rdma_ports(sys: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for device, chain in _class(f"{sys}/class/infiniband"):
        for port in _listing(f"{sys}/class/infiniband/{device}/ports"):
            yield f"{device}:{port}", chain


def _class(folder: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the PCI devices of a class, with their chains."""
    for name in _listing(folder):
        chain = pci_chain(link_target(f"{folder}/{name}"))
        if len(chain) > 1:
            yield plain(name), chain


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
    return None if node is None or node < 0 else node  # -1: the firmware does not report it
