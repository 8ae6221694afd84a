"""A fake /sys with network cards and GPUs in the kernel's layout: classes and buses are links into devices.

A file whose content is None is missing; a file with UNREADABLE exists but cannot be read, not even by root.
"""

import os.path
from pathlib import Path

UNREADABLE = object()

NIC_FILES = {
    "carrier": 1, "operstate": "up", "speed": 10000, "carrier_down_count": 0, "statistics/rx_bytes": 1000,
    "statistics/tx_bytes": 2000, "statistics/rx_errors": 0, "statistics/tx_errors": 0, "statistics/rx_dropped": 0,
    "statistics/tx_dropped": 0,
}  # fmt: skip
_PORT_ERRORS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_discards", "port_xmit_constraint_errors", "port_rcv_constraint_errors",
    "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
)  # fmt: skip
PORT_COUNTERS = dict.fromkeys((*_PORT_ERRORS, "multicast_rcv_packets", "port_xmit_wait"), 0) | {
    "port_xmit_data": 2000, "port_rcv_data": 1000, "port_xmit_packets": 20, "port_rcv_packets": 10,
    "unicast_rcv_packets": 10,
}  # fmt: skip
_ROCE_ERRORS = (
    "out_of_buffer", "out_of_sequence", "duplicate_request", "rnr_nak_retry_err", "packet_seq_err",
    "implied_nak_seq_err", "local_ack_timeout_err", "req_cqe_error", "rp_cnp_handled", "rp_cnp_ignored",
    "np_ecn_marked_roce_packets", "np_cnp_sent", "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart",
    "roce_slow_restart_cnps", "roce_slow_restart_trans", "rx_icrc_encapsulated",
)  # fmt: skip
MLX5_ROCE = {"lifespan": 10, "rx_write_requests": 5} | dict.fromkeys(_ROCE_ERRORS, 0)
BNXT_RE = {"active_qps": 4, "rx_pkts": 3, "rx_bytes": 300, "tx_bytes": 400, "to_retransmits": 2, "rx_roce_discards": 0}
EFA = {"tx_bytes": 600, "rx_bytes": 500, "tx_pkts": 6, "rx_drops": 1, "rdma_read_wr_err": 0, "retrans_pkts": 7}
IRDMA = {"ip4InOctets": 10, "ip6InOctets": 1, "ip4OutOctets": 20, "ip6OutOctets": 2, "ip4InPkts": 3}
IRDMA |= {"tcpRetransSegs": 4, "cnpHandled": 0}
# The `counters` of a driver without counters, on kernels before 5.14.
NO_PMA = dict.fromkeys(PORT_COUNTERS, "N/A (no PMA)")


def write(folder, files):
    """Write files below a folder, by their paths."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is UNREADABLE:
            path.mkdir()
        elif content is not None:
            path.write_text(f"{content}\n")


class FakeSys:
    """A fake /sys. `where` is a path below /sys/devices: pci0000:3a/0000:3a:00.0/0000:3b:00.0."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def interface(self, name, where="virtual", files=None, **changed):
        """Add a network interface; `changed` are files of `statistics` or of the folder itself."""
        folder = self._device(where) / "net" / name
        base = NIC_FILES if files is None else files
        write(folder, base | {f"statistics/{k}" if f"statistics/{k}" in base else k: v for k, v in changed.items()})
        if where != "virtual":
            (folder / "device").symlink_to("../..")
        self._link(self.root / "class/net" / name, folder)
        return folder

    def bond(self, name, *members):
        """Turn an interface into the bond of these members."""
        (self.root / "class/net/bonding_masters").write_text(f"{name}\n")
        write(self.root / "class/net" / name, {"bonding/mode": "802.3ad 4"})
        for member in members:
            folder = self.root / "class/net" / member
            (folder / "master").symlink_to(f"../{name}")
            write(folder, {"bonding_slave/state": "active"})

    def rdma(self, name, where, driver, link_layer="Ethernet", node_type="1: CA", ports=1, **files):
        """Add an RDMA device. `files`: folders counters, hw_counters and device_hw_counters, and files of the port."""
        device = self._device(where)
        folder = device / "infiniband" / name
        write(folder, {"node_type": node_type})
        write(folder / "hw_counters", files.pop("device_hw_counters", {}))
        for port in range(1, ports + 1):
            port_folder = folder / "ports" / str(port)
            for group in ("counters", "hw_counters"):
                write(port_folder / group, files.get(group) or {})
            base = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "200 Gb/sec (4X HDR)"}
            port_files = {k: v for k, v in files.items() if k not in ("counters", "hw_counters")}
            write(port_folder, base | {"link_layer": link_layer} | port_files)
        (folder / "device").symlink_to("../..")
        self._link(device / "driver", self.root / "bus/pci/drivers" / driver)
        self._link(self.root / "class/infiniband" / name, folder)
        return folder

    def pci(self, where, numa_node=None):
        """Add a PCI function, such as a GPU."""
        write(self._device(where), {"numa_node": numa_node})

    def _device(self, where):
        folder = self.root / "devices" / where
        folder.mkdir(parents=True, exist_ok=True)
        if where != "virtual":
            link = self.root / "bus/pci/devices" / folder.name
            self._link(link, folder)
        return folder

    @staticmethod
    def _link(link, target):
        """Make a relative link, as the kernel does."""
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(target, link.parent))
