"""Read the traffic, errors and link state of each RDMA port.

Layout: Documentation/ABI/stable/sysfs-class-infiniband. Each port has a folder, with InfiniBand's own PortCounters in
`counters` and the driver's in `hw_counters`, which some kernels keep at the device instead. `port_rcv_data` and
`port_xmit_data` count words of 4 bytes; drivers without them count bytes under names of their own. RDMA traffic is not
in the counters of the network interface on the same card.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from zmon.agent.sources.pci import pci_address
from zmon.agent.sources.reading import Reading, first
from zmon.agent.sources.sysfs import Attributes, CounterTotals, link_target, names_in, sample_each
from zmon.errors import SourceUnavailable
from zmon.schema.host import NicSample

MAX_PORTS = 64
ACTIVE, LINK_UP = 4, 5  # values of `state` and of `phys_state`
GIGABIT = 1_000_000_000 / 8

# What is received and transmitted, each a counter or a sum of counters, and the bytes per count, by driver. The first
# entry whose counters the port has is used.
TRAFFIC = (
    ("port_rcv_data", "port_xmit_data", 4),  # mlx5, mlx4, hfi1
    ("rx_bytes", "tx_bytes", 1),  # efa, bnxt_re
    ("rx_rdma_ucast_bytes", "tx_rdma_ucast_bytes", 1),  # ionic
    ("rx_bytes_cnt", "tx_bytes_cnt", 1),  # erdma
    ("hw_rx_bytes_cnt", "hw_tx_bytes_cnt", 1),  # erdma, the vendor's own
    ("ip4InOctets ip6InOctets", "ip4OutOctets ip6OutOctets", 1),  # irdma
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
        read = dict(first(MAX_PORTS, [*ports.items()], "ports", dropped))
        samples = sample_each({name: str(port) for name, port in read.items()}, self._sample, dropped)
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
        kind = transport(
            files.text("../../node_type") or "",
            files.text("link_layer") or "",
            files.link("../../device/driver"),
        )
        if kind is None:
            files.note("its transport is unknown")
            return None
        device, _, number = name.partition(":")
        counters = _counters(self._root / device / "ports", number)

        def count(counter: str) -> int | None:
            return self._totals.read(files, counters[counter]) if counter in counters else None

        def traffic(is_sent: bool) -> int | None:
            for received, transmitted, unit in TRAFFIC:
                summands = transmitted if is_sent else received
                counts = [count(counter) for counter in summands.split()]
                known = [number for number in counts if number is not None]
                if len(known) == len(counts):
                    return sum(known) * unit
            return None

        errors = {counter: count(counter) for counter in sorted(ERROR_COUNTERS & counters.keys())}
        rate = files.find("rate", _RATE)
        return NicSample(
            device=name,
            transport=kind,
            up=is_up(files.find("state", _STATE), files.find("phys_state", _STATE)),
            speed_bytes_per_second=None if rate is None else float(rate) * GIGABIT,
            received_bytes=traffic(is_sent=False),
            transmitted_bytes=traffic(is_sent=True),
            errors={counter: number for counter, number in errors.items() if number is not None},
            pci=pci_address(link_target(f"{self._root}/{device}")),
        )


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
    if int(phys_state or 0) not in (LINK_UP, 0):  # 0: the driver does not report it
        return False
    return None if state is None else int(state) == ACTIVE


def _counters(ports: Path, number: str) -> dict[str, str]:
    """Return the path of each counter of the port, by name. The counters of a device belong to its only port."""
    paths: dict[str, str] = {}
    only_port = sum(map(str.isdecimal, names_in(ports))) == 1
    for folder in ("counters", "hw_counters", "../../hw_counters") if only_port else ("counters", "hw_counters"):
        with suppress(OSError):  # not every driver has all of them
            for name in names_in(ports / number / folder):
                paths.setdefault(name, f"{folder}/{name}")
    return paths
