"""Read the traffic, errors and link state of each network interface.

Layout: Documentation/ABI/testing/sysfs-class-net and sysfs-class-net-statistics; `speed` is in Mbit/s. The same
files exist for cards, bonds, VLANs, veth and loopback. One odd interface never hides the others: values that cannot be
read are unknown. A host with many containers has thousands of interfaces, so cards, bonds and loopback come first.

`carrier` is never read and `speed` rarely: both wait for the kernel's rtnl lock, which is held for seconds where
containers come and go. `operstate` gives the same answer without the lock (Documentation/networking/operstates.rst).
"""

from __future__ import annotations

import re
from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

from zmon.agent.sources.pci import pci_address
from zmon.agent.sources.reading import Reading
from zmon.agent.sources.sysfs import Attributes, CounterTotals, link_target, names_in, sample_each
from zmon.errors import SourceUnavailable
from zmon.format import plain
from zmon.schema.host import NicSample

MAX_INTERFACES = 64
LISTING_READS = 10  # with more than MAX_INTERFACES, names are listed at every tenth read; 10,000 names take 5 ms
BONDS = "bonding_masters"  # this file is in the folder of the interfaces
ERROR_COUNTERS = {
    "carrier_down_count": "carrier_down_count",  # how often the link went down
    "rx_errors": "statistics/rx_errors",
    "tx_errors": "statistics/tx_errors",
    "rx_dropped": "statistics/rx_dropped",
    "tx_dropped": "statistics/tx_dropped",
}
SPEED_READS = 60  # reads until `speed` is read again even if the link did not change: a bond may have lost a member
OPERSTATE = re.compile("(up|down|unknown|dormant|testing|lowerlayerdown|notpresent)$")
UP = ("up", "unknown")  # unknown: it works, but the driver does not report its state; so does loopback
MEGABIT = 1_000_000 / 8


class _Speed(NamedTuple):
    """The speed of an interface as it was read last, and the state of its link then."""

    link: object
    megabits: int | None  # per second; None: unknown


class NicSource:
    """The interfaces under /sys/class/net that are up or have carried data, at most MAX_INTERFACES."""

    name = "nic"
    field = "nics"
    interval_seconds = 1.0

    def __init__(self, sys: Path = Path("/sys")) -> None:
        self._root = sys / "class/net"
        self._totals = CounterTotals()
        self._listing: frozenset[str] = frozenset()
        self._cards: dict[str, str] = {}  # path in /sys/devices by name, without virtual devices
        self._chosen: tuple[str, ...] = ()
        self._speeds: dict[str, _Speed] = {}  # by interface
        self._reads = 0

    def read(self) -> Reading:
        """Return one sample per interface, by name."""
        self._choose()
        dropped: list[str] = []
        samples = sample_each({name: f"{self._root}/{name}" for name in self._chosen}, self._sample, dropped)
        self._totals.keep(self._chosen)
        if left_out := len(self._listing) - len(self._chosen):
            dropped.append(f"{left_out} of {len(self._listing)} interfaces: at most {MAX_INTERFACES} are read")
        used = tuple(nic for nic in samples if nic.up or nic.received_bytes or nic.transmitted_bytes)
        return Reading(used, tuple(dropped))

    def _choose(self) -> None:
        """Choose the interfaces to sample, again whenever the listing has changed."""
        self._reads += 1
        if len(self._listing) > MAX_INTERFACES and self._reads % LISTING_READS:
            return
        try:
            listing = frozenset(names_in(self._root))
            bonds = (self._root / BONDS).read_text().split() if BONDS in listing else ()
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            raise SourceUnavailable(
                f"cannot read {self._root}", f"{error.strerror}", "mount /sys where the agent runs"
            ) from error
        listing -= {BONDS}
        if not listing:
            raise SourceUnavailable(
                "there is no network interface", f"{self._root} is empty", "mount the host's /sys where the agent runs"
            )
        if listing == self._listing:
            return
        links = {name: link_target(f"{self._root}/{name}") for name in listing - self._listing}
        cards = self._cards | {name: link for name, link in links.items() if link and "/virtual/" not in link}
        self._cards = {name: link for name, link in cards.items() if name in listing}
        self._listing = listing
        self._chosen = choose(listing, {"lo", *self._cards, *bonds})
        self._speeds = {name: speed for name, speed in self._speeds.items() if name in self._chosen}

    def _sample(self, name: str, files: Attributes) -> NicSample:
        state = files.find("operstate", OPERSTATE)
        errors = {counter: self._totals.read(files, path) for counter, path in ERROR_COUNTERS.items()}
        speed = self._speed(name, files, (state, errors["carrier_down_count"]))
        return NicSample(
            device=plain(name),
            transport="tcp",
            up=None if state is None else state in UP,
            speed_bytes_per_second=speed * MEGABIT if speed is not None and speed > 0 else None,  # -1: unknown
            received_bytes=self._totals.read(files, "statistics/rx_bytes"),
            transmitted_bytes=self._totals.read(files, "statistics/tx_bytes"),
            errors={counter: count for counter, count in errors.items() if count is not None},
            bond=_bond(files),
            pci=pci_address(self._cards.get(name, "")),
        )

    def _speed(self, name: str, files: Attributes, link: object) -> int | None:
        """Return the speed in Mbit/s, which is read again if the state of the link has changed, or after some time."""
        speed = self._speeds.get(name)
        if speed is None or speed.link != link or self._reads % SPEED_READS == 0:
            speed = self._speeds[name] = _Speed(link, files.number("speed"))
        return speed.megabits


def choose(names: Set[str], first: Set[str]) -> tuple[str, ...]:
    """Return the interfaces to sample, by name: those in `first`, then others up to MAX_INTERFACES."""
    return tuple(sorted(sorted(names, key=lambda name: (name not in first, name))[:MAX_INTERFACES]))


def _bond(files: Attributes) -> str | None:
    master = files.link("master")  # the port of a bridge has a master, too
    return plain(master) if master and files.text("bonding_slave/state") is not None else None
