"""Read the traffic, errors and link state of each RDMA port.

Layout: Documentation/ABI/stable/sysfs-class-infiniband. Each port has a folder, with InfiniBand's own PortCounters in
`counters` and the driver's in `hw_counters`. Some kernels have `hw_counters` at the device instead. `port_rcv_data` and
`port_xmit_data` count words of 4 bytes; drivers without them count bytes under names of their own. RDMA traffic is not
in the counters of the network interface on the same card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from zmon.agent.sources.pci import pci_address
from zmon.agent.sources.reading import Reading, take_first
from zmon.agent.sources.sysfs import Attributes, CounterTotals, link_target, names_in, sample_each
from zmon.errors import SourceUnavailable
from zmon.schema.host import NicSample

MAX_PORTS = 64
ACTIVE = 4  # a value of `state`
NOT_REPORTED, LINK_UP = 0, 5  # values of `phys_state`; drivers without one write 0
BYTES_PER_GIGABIT = 1_000_000_000 / 8


class TrafficCounters(NamedTuple):
    """The counters of a driver whose sums, times the bytes per count, are what a port received and transmitted."""

    received: tuple[str, ...]
    transmitted: tuple[str, ...]
    bytes_per_count: int = 1


# The first row of which a port has all counters is used, for each direction.
TRAFFIC = (
    TrafficCounters(("port_rcv_data",), ("port_xmit_data",), 4),  # mlx5, mlx4, hfi1
    TrafficCounters(("rx_bytes",), ("tx_bytes",)),  # efa, bnxt_re
    TrafficCounters(("rx_rdma_ucast_bytes",), ("tx_rdma_ucast_bytes",)),  # ionic
    TrafficCounters(("rx_bytes_cnt",), ("tx_bytes_cnt",)),  # erdma
    TrafficCounters(("hw_rx_bytes_cnt",), ("hw_tx_bytes_cnt",)),  # erdma, the vendor's own
    TrafficCounters(("ip4InOctets", "ip6InOctets"), ("ip4OutOctets", "ip6OutOctets")),  # irdma
)

# Counters of a bad link or a congested network, by driver. Newer bnxt_re uses mlx5's names.
ERROR_COUNTERS = frozenset(
    name
    for names in (
        # InfiniBand PortCounters
        "symbol_error link_error_recovery link_downed port_rcv_errors port_rcv_remote_physical_errors",
        "port_xmit_discards port_xmit_wait local_link_integrity_errors excessive_buffer_overrun_errors",
        # mlx5
        "out_of_buffer out_of_sequence duplicate_request packet_seq_err implied_nak_seq_err local_ack_timeout_err",
        "rnr_nak_retry_err np_cnp_sent np_ecn_marked_roce_packets rp_cnp_handled rp_cnp_ignored rx_icrc_encapsulated",
        "roce_adp_retrans roce_adp_retrans_to roce_slow_restart roce_slow_restart_cnps roce_slow_restart_trans",
        # bnxt_re
        "to_retransmits seq_err_naks_rcvd max_retry_exceeded rnr_naks_rcvd missing_resp unrecoverable_err",
        "oos_drop_count rx_out_of_buffer rx_roce_errors rx_roce_discards tx_roce_errors tx_roce_discards",
        "rx_cnp_pkts tx_cnp_pkts rx_ecn_marked_pkts",
        # irdma, older kernels with the prefix tcp
        "RetransSegs tcpRetransSegs InProtoErrors tcpInProtoErrors InOptErrors tcpInOptErrors rxVlanErrors",
        "ip4InDiscards ip6InDiscards cnpSent cnpHandled cnpIgnored RxECNMrkd",
        # efa
        "rx_drops retrans_bytes retrans_pkts retrans_timeout_events unresponsive_remote_events",
        "impaired_remote_conn_events rdma_read_wr_err rdma_write_wr_err",
        # ionic
        "tx_rdma_ack_timeout tx_rdma_retx_pkts req_tx_retry_excd_err req_rx_pkt_seq_err resp_rx_outof_buf",
        "resp_rx_outouf_seq rx_rdma_cnp_pkts tx_rdma_cnp_pkts rx_rdma_ecn_pkts",
        # mana
        "requester_timeout requester_oos_nak requester_rnr_nak requester_implicit_nak requester_retries_exceeded",
        "requester_rnr_nak_retries_exceeded responder_rnr_nak responder_oos responder_dup_request received_cnps",
    )
    for name in names.split()
) | {"RNR sent", "RNR received", "RTO", "Rcvd Out of order packets", "Nak Sequence Error", "CRC errors"}  # irdma gen3

_STATE = re.compile(r"(\d{1,2}): ")  # 4: ACTIVE
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")  # 200 Gb/sec (4X HDR)


class RdmaSource:
    """The ports under /sys/class/infiniband, at most MAX_PORTS."""

    name = "rdma"
    field = "rdma"
    interval_seconds = 2.0  # each PortCounter is a query to the card's firmware

    def __init__(self, sys: Path = Path("/sys")) -> None:
        self._root = sys / "class/infiniband"
        self._totals = CounterTotals()

    def read(self) -> Reading:
        """Return one sample per port, by device."""
        dropped: list[str] = []
        ports = self._ports(dropped)
        folders = {name: str(port) for name, port in take_first(MAX_PORTS, [*ports.items()], "ports", dropped)}
        samples = sample_each(folders, self._sample, dropped)
        self._totals.keep(ports)
        return Reading(tuple(samples), tuple(dropped))

    def _ports(self, dropped: list[str]) -> dict[str, Path]:
        """Return the folder of each port by name; `dropped` gets a line for each device that failed."""
        try:
            devices = sorted(names_in(self._root))
        except FileNotFoundError:
            devices = []
        if not devices:
            raise SourceUnavailable("there is no RDMA device", f"{self._root} has none")
        ports: dict[str, Path] = {}
        for device in devices:
            folder = self._root / device / "ports"
            try:
                numbers = sorted(name for name in names_in(folder) if name.isdecimal())
            except OSError as error:
                dropped.append(f"{device}: cannot list its ports: {error.strerror}")
            else:
                ports |= {f"{device}:{number}": folder / number for number in numbers}
        return ports

    def _sample(self, name: str, files: Attributes) -> NicSample | None:
        """Return the sample of a port; None if its transport is unknown."""
        kind = transport(
            files.text("../../node_type") or "",
            files.text("link_layer") or "",
            files.link("../../device/driver"),
        )
        if kind is None:
            files.note("its transport is unknown")
            return None
        device, _, port = name.partition(":")
        counters = _PortCounters(files, _counter_files(self._root / device / "ports", port), self._totals)
        errors = {counter: counters.count(counter) for counter in sorted(ERROR_COUNTERS & counters.files.keys())}
        rate = files.find("rate", _RATE)
        return NicSample(
            device=name,
            transport=kind,
            up=is_up(files.find("state", _STATE), files.find("phys_state", _STATE)),
            speed_bytes_per_second=None if rate is None else float(rate) * BYTES_PER_GIGABIT,
            received_bytes=counters.first_sum((row.received, row.bytes_per_count) for row in TRAFFIC),
            transmitted_bytes=counters.first_sum((row.transmitted, row.bytes_per_count) for row in TRAFFIC),
            errors={counter: count for counter, count in errors.items() if count is not None},
            pci=pci_address(link_target(f"{self._root}/{device}")),
        )


@dataclass(frozen=True)
class _PortCounters:
    """The counters of one port."""

    attributes: Attributes
    files: dict[str, str]  # path of each counter, by name
    totals: CounterTotals

    def count(self, counter: str) -> int | None:
        """Return the value of a counter; None if the port does not have it."""
        return self.totals.read(self.attributes, self.files[counter]) if counter in self.files else None

    def first_sum(self, rows: Iterable[tuple[Sequence[str], int]]) -> int | None:
        """Return the bytes by the first row of counters, and bytes per count, of which the port has all counters."""
        for names, bytes_per_count in rows:
            counts = [count for name in names if (count := self.count(name)) is not None]
            if len(counts) == len(names):
                return sum(counts) * bytes_per_count
        return None


def transport(node_type: str, link_layer: str, driver: str) -> str | None:
    """Return the protocol of the port, or None if the device does not report it."""
    if driver == "efa":  # its link layer is neither InfiniBand nor Ethernet
        return "efa"
    if not node_type:
        return None
    if "RNIC" in node_type:
        return "iwarp"
    return {"InfiniBand": "infiniband", "Ethernet": "roce"}.get(link_layer)


def is_up(state: str | None, phys_state: str | None) -> bool | None:
    """Return True if data can pass, given the numbers of the logical and of the physical state; None if unknown."""
    if phys_state is not None and int(phys_state) not in (LINK_UP, NOT_REPORTED):
        return False
    return None if state is None else int(state) == ACTIVE


def _counter_files(ports: Path, port: str) -> dict[str, str]:
    """Return the path of each counter of the port, by name. The counters of a device belong to its only port."""
    paths: dict[str, str] = {}
    only_port = sum(map(str.isdecimal, names_in(ports))) == 1
    for folder in ("counters", "hw_counters", "../../hw_counters") if only_port else ("counters", "hw_counters"):
        with suppress(OSError):  # not every driver has all of them
            for name in names_in(ports / port / folder):
                paths.setdefault(name, f"{folder}/{name}")
    return paths
