"""Tests of RDMA ports: traffic, link state and errors, with the counter names of each vendor."""

import pytest

from tests.agent.sources.trees import BNXT_RE, EFA, IRDMA, MLX5_ROCE, NO_PMA, PORT_COUNTERS, UNREADABLE
from zmon.agent.sources.rdma import MAX_PORTS, RdmaSource
from zmon.errors import SourceUnavailable

CARD = "pci0000:3a/0000:3a:00.0/0000:3b:00.0"
OTHER_CARD = "pci0000:5d/0000:5d:00.0/0000:5e:00.0"


@pytest.fixture
def source(tmp_path):
    """Return the source that reads the fake /sys."""
    return RdmaSource(tmp_path)


def read_single_port(source):
    """Return the only port of a read without drops."""
    reading = source.read()
    assert reading.dropped == ()
    (port,) = reading.value
    return port


def add_infiniband_port(fake_sys, name="mlx5_0", where=CARD, **files):
    """Add an InfiniBand device with one port, and return its folder."""
    return fake_sys.rdma(name, where, "mlx5_core", **{"link_layer": "InfiniBand", "counters": PORT_COUNTERS, **files})


IB = {"link_layer": "InfiniBand", "counters": PORT_COUNTERS}
RNIC, UNSPECIFIED = {"node_type": "4: RNIC"}, {"link_layer": "Unknown", "node_type": "7: unspecified"}
BNXT_ERRORS = {"to_retransmits": 2, "rx_roce_discards": 0}
EFA_DEVICE = EFA | {"rx_bytes": 9, "cmds_err": 1}
SHOWN = {  # driver and files of a port → fields of its sample; `some_errors`: a part, None for what is not among them
    "InfiniBand counts words of 4 bytes": (
        "mlx5_core", IB,
        {"device": "dev:1", "transport": "infiniband", "up": True, "pci": "0000:3b:00.0",
         "speed_bytes_per_second": 25e9, "received_bytes": 4000, "transmitted_bytes": 8000},
    ),
    "errors of InfiniBand by the kernel's names": (
        "mlx5_core",
        IB | {"counters": PORT_COUNTERS | {"symbol_error": 7, "link_downed": 1, "port_xmit_wait": 99}},
        {"some_errors": {"symbol_error": 7, "link_downed": 1, "port_xmit_wait": 99, "link_error_recovery": 0}
         | dict.fromkeys(("port_rcv_data", "port_rcv_packets", "VL15_dropped"))},
    ),
    "RoCE of mlx5 shows congestion and retransmissions": (
        "mlx5_core",
        {"counters": PORT_COUNTERS, "hw_counters": MLX5_ROCE | {"np_cnp_sent": 5, "roce_slow_restart": 6}},
        {"transport": "roce", "received_bytes": 4000,
         "some_errors": {"np_cnp_sent": 5, "roce_slow_restart": 6, "out_of_sequence": 0}
           | dict.fromkeys(("lifespan", "rx_write_requests"))},
    ),
    "bnxt_re counts bytes": (
        "bnxt_en", {"hw_counters": BNXT_RE},
        {"transport": "roce", "received_bytes": 300, "transmitted_bytes": 400, "errors": BNXT_ERRORS},
    ),
    "EFA counts bytes and has its own link layer": (
        "efa", UNSPECIFIED | {"hw_counters": EFA, "rate": "100 Gb/sec (4X EDR)"},
        {"transport": "efa", "received_bytes": 500, "transmitted_bytes": 600,
         "errors": {"rx_drops": 1, "rdma_read_wr_err": 0, "retrans_pkts": 7}},
    ),
    "irdma counts bytes of both protocols": (
        "ice", RNIC | {"hw_counters": IRDMA},
        {"transport": "iwarp", "received_bytes": 11, "transmitted_bytes": 22,
         "errors": {"tcpRetransSegs": 4, "cnpHandled": 0}},
    ),
    "irdma in RoCE mode": ("ice", {"hw_counters": IRDMA}, {"transport": "roce"}),
    "incomplete sum is unknown": ("ice", RNIC | {"hw_counters": {"ip4InOctets": 10}}, {"received_bytes": None}),
    # Kernels before 5.14 show ports of irdma, bnxt_re and efa in this way.
    "counters of the driver replace those without PMA": (
        "bnxt_en", {"counters": NO_PMA, "hw_counters": BNXT_RE}, {"received_bytes": 300, "errors": BNXT_ERRORS}
    ),
    "counters of the device count for its only port": (
        "efa", {"link_layer": "Unknown", "device_hw_counters": EFA}, {"received_bytes": 500}
    ),
    "counters of the port before those of the device": (
        "efa", {"link_layer": "Unknown", "hw_counters": EFA, "device_hw_counters": EFA_DEVICE},
        {"received_bytes": 500},
    ),
    "no counters": (
        "mlx5_core", IB | {"counters": None},
        {"up": True, "received_bytes": None, "transmitted_bytes": None, "errors": {}},
    ),
    **{
        f"state {state}, {physical}": ("mlx5_core", IB | {"state": state, "phys_state": physical}, {"up": up})
        for state, physical, up in (
            ("4: ACTIVE", "5: LinkUp", True),
            ("4: ACTIVE", None, True),
            ("4: ACTIVE", "0: <unknown>", True),
            ("1: DOWN", "3: Disabled", False),
            ("1: DOWN", "2: Polling", False),
            ("2: INIT", "5: LinkUp", False),  # a port without a subnet manager
            ("5: ACTIVE_DEFER", "6: LinkErrorRecovery", False),
            ("4: ACTIVE", "6: LinkErrorRecovery", False),
            (None, "2: Polling", False),
            (None, "5: LinkUp", None),
            (None, None, None),
        )
    },
    **{
        f"rate {rate}": ("mlx5_core", IB | {"rate": rate}, {"speed_bytes_per_second": speed})
        for rate, speed in {"400 Gb/sec (4X NDR)": 50e9, "2.5 Gb/sec (1X SDR)": 0.3125e9, None: None}.items()
    },
}  # fmt: skip


@pytest.mark.parametrize(("driver", "files", "fields"), SHOWN.values(), ids=SHOWN)
def test_sample_of_a_port_has_the_values_of_its_files(fake_sys, source, driver, files, fields):
    fake_sys.rdma("dev", CARD, driver, **files)
    port = read_single_port(source)
    shown = {name: getattr(port, name) for name in fields if name != "some_errors"}
    if "some_errors" in fields:
        shown["some_errors"] = {name: port.errors.get(name) for name in fields["some_errors"]}
    assert shown == fields


def test_counters_of_a_device_with_two_ports_count_for_no_port(fake_sys, source):
    fake_sys.rdma("mlx4_0", CARD, "mlx4_core", ports=2, device_hw_counters={"rx_bytes": 9})
    assert [(port.device, port.received_bytes) for port in source.read().value] == [
        ("mlx4_0:1", None),
        ("mlx4_0:2", None),
    ]


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"state": UNREADABLE}, "mlx5_3:1: cannot read state: Is a directory"),
        ({"state": "gone"}, "mlx5_3:1: state has odd content: 'gone'"),
        ({"rate": "fast"}, "mlx5_3:1: rate has odd content: 'fast'"),
        ({"link_layer": UNREADABLE}, "mlx5_3:1: cannot read link_layer: Is a directory"),
        ({"link_layer": None}, "mlx5_3:1: its transport is unknown"),
        ({"link_layer": "Unknown"}, "mlx5_3:1: its transport is unknown"),
        ({"counters": {"link_downed": UNREADABLE}}, "mlx5_3:1: cannot read link_downed: Is a directory"),
        ({"counters": {"port_rcv_data": "-"}}, "mlx5_3:1: port_rcv_data has odd content: '-'"),
    ],
)
def test_malformed_port_is_reported_and_hides_no_other(fake_sys, source, files, line):
    add_infiniband_port(fake_sys, "mlx5_3", OTHER_CARD, **files)
    add_infiniband_port(fake_sys, "mlx5_4")
    reading = source.read()
    intact = next(port for port in reading.value if port.device == "mlx5_4:1")
    assert (intact.up, intact.received_bytes) == (True, 4000)
    assert reading.dropped == (line,)


def test_port_of_unknown_state_still_shows_its_counters(fake_sys, source):
    add_infiniband_port(fake_sys, state=UNREADABLE)
    (port,) = source.read().value
    assert (port.up, port.received_bytes) == (None, 4000)


def test_device_without_ports_is_reported_and_hides_no_other(fake_sys, source):
    add_infiniband_port(fake_sys, "mlx5_3", ports=0)
    add_infiniband_port(fake_sys, "mlx5_4", OTHER_CARD)
    reading = source.read()
    assert [port.device for port in reading.value] == ["mlx5_4:1"]
    assert reading.dropped == ("mlx5_3: cannot list its ports: No such file or directory",)


def test_counters_continue_after_a_wrap_at_32_bits_and_after_the_driver_was_reloaded(fake_sys, source):
    folder = add_infiniband_port(fake_sys, hw_counters={"out_of_sequence": 2**32 - 6})
    source.read()
    (folder / "ports/1/hw_counters/out_of_sequence").write_text("4\n")
    (folder / "ports/1/counters/port_rcv_data").write_text("10\n")
    port = read_single_port(source)
    assert (port.errors["out_of_sequence"], port.received_bytes) == (2**32 + 4, (1000 + 10) * 4)


def test_ports_above_the_limit_are_counted(fake_sys, source):
    for number in range(MAX_PORTS + 3):
        add_infiniband_port(
            fake_sys, f"mlx5_{number}", f"pci0000:3a/0000:3a:00.0/0000:3b:{number:02x}.0", counters=None
        )
    reading = source.read()
    assert len(reading.value) == MAX_PORTS
    assert reading.dropped == (f"3 of {MAX_PORTS + 3} ports: at most {MAX_PORTS} are read",)


@pytest.mark.parametrize("folder", ["", "class/infiniband"])
def test_host_without_rdma_reports_the_source_as_absent(fake_sys, source, folder):
    (fake_sys.root / folder).mkdir(parents=True, exist_ok=True)
    with pytest.raises(SourceUnavailable, match="no RDMA device"):
        source.read()
