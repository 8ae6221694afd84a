"""Tests of RDMA ports: traffic, link state and errors, with the counter names of each vendor."""

from pathlib import Path

import pytest

from tests.agent.sources.trees import BNXT_RE, EFA, IRDMA, MLX5_ROCE, NO_PMA, PORT_COUNTERS, UNREADABLE, FakeSys
from zmon.agent.sources.rdma import MAX_PORTS, RdmaSource, is_up, transport
from zmon.errors import SourceUnavailable

CARD = "pci0000:3a/0000:3a:00.0/0000:3b:00.0"
OTHER_CARD = "pci0000:5d/0000:5d:00.0/0000:5e:00.0"


@pytest.fixture
def fake_sys(tmp_path):
    return FakeSys(tmp_path)


@pytest.fixture
def source(tmp_path):
    return RdmaSource(tmp_path)


def read_single_port(source):
    """Return the only port of a read without drops."""
    reading = source.read()
    assert reading.dropped == ()
    (port,) = reading.value
    return port


def add_infiniband_port(fake_sys, name="mlx5_0", where=CARD, **files):
    return fake_sys.rdma(name, where, "mlx5_core", **{"link_layer": "InfiniBand", "counters": PORT_COUNTERS, **files})


def test_infiniband_port_counts_words_of_4_bytes(fake_sys, source):
    add_infiniband_port(fake_sys)
    port = read_single_port(source)
    assert (port.device, port.transport, port.up, port.pci) == ("mlx5_0:1", "infiniband", True, "0000:3b:00.0")
    assert port.speed_bytes_per_second == 25e9
    assert (port.received_bytes, port.transmitted_bytes) == (4000, 8000)


def test_infiniband_port_shows_link_errors_by_the_kernels_names(fake_sys, source):
    add_infiniband_port(fake_sys, counters=PORT_COUNTERS | {"symbol_error": 7, "link_downed": 1, "port_xmit_wait": 99})
    errors = read_single_port(source).errors
    assert (errors["symbol_error"], errors["link_downed"], errors["port_xmit_wait"]) == (7, 1, 99)
    assert errors["link_error_recovery"] == 0
    assert not {"port_rcv_data", "port_rcv_packets", "VL15_dropped"} & errors.keys()


def test_roce_port_of_mlx5_shows_congestion_and_retransmissions(fake_sys, source):
    hw_counters = MLX5_ROCE | {"np_cnp_sent": 5, "roce_slow_restart": 6}
    fake_sys.rdma("mlx5_2", CARD, "mlx5_core", counters=PORT_COUNTERS, hw_counters=hw_counters)
    port = read_single_port(source)
    assert (port.transport, port.received_bytes) == ("roce", 4000)
    assert (port.errors["np_cnp_sent"], port.errors["roce_slow_restart"], port.errors["out_of_sequence"]) == (5, 6, 0)
    assert not {"lifespan", "rx_write_requests"} & port.errors.keys()


def test_port_of_bnxt_re_counts_bytes(fake_sys, source):
    fake_sys.rdma("bnxt_re0", CARD, "bnxt_en", hw_counters=BNXT_RE)
    port = read_single_port(source)
    assert (port.transport, port.received_bytes, port.transmitted_bytes) == ("roce", 300, 400)
    assert port.errors == {"to_retransmits": 2, "rx_roce_discards": 0}


def test_port_of_efa_counts_bytes_and_has_its_own_link_layer(fake_sys, source):
    fake_sys.rdma("rdmap0s6", CARD, "efa", "Unknown", "7: unspecified", hw_counters=EFA, rate="100 Gb/sec (4X EDR)")
    port = read_single_port(source)
    assert (port.transport, port.received_bytes, port.transmitted_bytes) == ("efa", 500, 600)
    assert port.errors == {"rx_drops": 1, "rdma_read_wr_err": 0, "retrans_pkts": 7}


def test_port_of_irdma_counts_bytes_of_both_protocols(fake_sys, source):
    fake_sys.rdma("iwp59s0f0", CARD, "ice", node_type="4: RNIC", hw_counters=IRDMA)
    port = read_single_port(source)
    assert (port.transport, port.received_bytes, port.transmitted_bytes) == ("iwarp", 11, 22)
    assert port.errors == {"tcpRetransSegs": 4, "cnpHandled": 0}


def test_port_of_irdma_in_roce_mode_is_roce(fake_sys, source):
    fake_sys.rdma("rocep59s0f0", CARD, "ice", hw_counters=IRDMA)
    assert read_single_port(source).transport == "roce"


def test_incomplete_sum_is_unknown(fake_sys, source):
    fake_sys.rdma("iwp59s0f0", CARD, "ice", node_type="4: RNIC", hw_counters={"ip4InOctets": 10})
    assert read_single_port(source).received_bytes is None


def test_counters_of_the_driver_replace_counters_without_pma(fake_sys, source):
    """Kernels before 5.14 show ports of irdma, bnxt_re and efa in this way."""
    fake_sys.rdma("bnxt_re0", CARD, "bnxt_en", counters=NO_PMA, hw_counters=BNXT_RE)
    port = read_single_port(source)
    assert port.received_bytes == 300
    assert port.errors == {"to_retransmits": 2, "rx_roce_discards": 0}


def test_counters_of_the_device_count_for_its_only_port(fake_sys, source):
    fake_sys.rdma("efa_0", CARD, "efa", "Unknown", device_hw_counters=EFA)
    assert read_single_port(source).received_bytes == 500


def test_counters_of_the_port_are_preferred_over_the_device(fake_sys, source):
    fake_sys.rdma(
        "efa_0", CARD, "efa", "Unknown", hw_counters=EFA, device_hw_counters=EFA | {"rx_bytes": 9, "cmds_err": 1}
    )
    assert read_single_port(source).received_bytes == 500


def test_counters_of_a_device_with_two_ports_count_for_no_port(fake_sys, source):
    fake_sys.rdma("mlx4_0", CARD, "mlx4_core", ports=2, device_hw_counters={"rx_bytes": 9})
    assert [(port.device, port.received_bytes) for port in source.read().value] == [
        ("mlx4_0:1", None),
        ("mlx4_0:2", None),
    ]


def test_port_without_counters_shows_its_state(fake_sys, source):
    add_infiniband_port(fake_sys, counters=None)
    port = read_single_port(source)
    assert (port.up, port.received_bytes, port.transmitted_bytes, port.errors) == (True, None, None, {})


@pytest.mark.parametrize(
    ("state", "phys_state", "up"),
    [
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
    ],
)
def test_link_is_up_when_both_states_are_up(fake_sys, source, state, phys_state, up):
    add_infiniband_port(fake_sys, state=state, phys_state=phys_state)
    assert read_single_port(source).up is up


def test_state_is_compared_by_number():
    assert is_up("4", "5") is True
    assert is_up("3", "5") is False


@pytest.mark.parametrize(
    ("rate", "speed"),
    [("400 Gb/sec (4X NDR)", 50e9), ("2.5 Gb/sec (1X SDR)", 0.3125e9), (None, None)],
)
def test_rate_becomes_bytes_per_second(fake_sys, source, rate, speed):
    add_infiniband_port(fake_sys, rate=rate)
    assert read_single_port(source).speed_bytes_per_second == speed


def test_transport_of_an_unknown_device_is_unknown():
    assert transport("", "Ethernet", "") is None
    assert transport("1: CA", "", "mlx5_core") is None
    assert transport("1: CA", "Unknown", "usnic") is None


# -- malformed devices among intact devices ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"state": UNREADABLE}, "mlx5_3:1: cannot read state: Is a directory"),
        ({"state": "gone"}, "mlx5_3:1: state has odd content: 'gone'"),
        ({"rate": "fast"}, "mlx5_3:1: rate has odd content: 'fast'"),
        ({"link_layer": UNREADABLE}, "mlx5_3:1: cannot read link_layer: Is a directory"),
        ({"link_layer": None}, "mlx5_3:1: its transport is unknown"),
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


# -- counters that wrap or restart -------------------------------------------------------------------------


def test_counter_continues_after_a_wrap_at_32_bits(fake_sys, source):
    folder = fake_sys.rdma("mlx5_0", CARD, "mlx5_core", hw_counters={"out_of_sequence": 2**32 - 6})
    source.read()
    (folder / "ports/1/hw_counters/out_of_sequence").write_text("4\n")
    assert read_single_port(source).errors["out_of_sequence"] == 2**32 + 4


def test_bytes_continue_after_the_driver_was_reloaded(fake_sys, source):
    folder = add_infiniband_port(fake_sys)
    source.read()
    (folder / "ports/1/counters/port_rcv_data").write_text("10\n")
    assert read_single_port(source).received_bytes == (1000 + 10) * 4


def test_ports_above_the_limit_are_counted(fake_sys, source):
    for number in range(MAX_PORTS + 3):
        add_infiniband_port(
            fake_sys, f"mlx5_{number}", f"pci0000:3a/0000:3a:00.0/0000:3b:{number:02x}.0", counters=None
        )
    reading = source.read()
    assert len(reading.value) == MAX_PORTS
    assert reading.dropped == ("3 of 67 ports: at most 64 are read",)


@pytest.mark.parametrize("folder", ["", "class/infiniband"])
def test_host_without_rdma_reports_the_source_as_absent(fake_sys, source, folder):
    (fake_sys.root / folder).mkdir(parents=True, exist_ok=True)
    with pytest.raises(SourceUnavailable, match="no RDMA device"):
        source.read()


def test_ports_of_this_machine_are_read_or_absent():
    if list(Path("/sys").glob("class/infiniband/*")):
        assert {port.transport for port in RdmaSource().read().value} <= {"infiniband", "roce", "iwarp", "efa"}
    else:
        with pytest.raises(SourceUnavailable, match="no RDMA device"):
            RdmaSource().read()
