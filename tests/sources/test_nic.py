"""What did each interface carry, and is its link up? One odd interface hides no other."""

import pytest

from zmon.errors import SourceUnavailable
from zmon.sources.nic import ERROR_COUNTERS, NicSource


@pytest.fixture
def add(tmp_path):
    """Add an interface to a /sys; a file whose content is None is not there."""

    def make(name, carrier="1", operstate="up", speed="10000", rx_bytes="1000", tx_bytes="2000", **counters):
        folder = tmp_path / "class/net" / name
        (folder / "statistics").mkdir(parents=True)
        files = {"carrier": carrier, "operstate": operstate, "speed": speed}
        counters = {"rx_bytes": rx_bytes, "tx_bytes": tx_bytes, **dict.fromkeys(ERROR_COUNTERS, "0"), **counters}
        files |= {f"statistics/{counter}": value for counter, value in counters.items()}
        for file, value in files.items():
            if value is not None:
                (folder / file).write_text(f"{value}\n")
        return NicSource(tmp_path)

    return make


def test_interface_shows_link_speed_bytes_and_errors(add):
    (nic,) = add("eth0", rx_errors="3").read().value
    assert (nic.device, nic.transport, nic.up) == ("eth0", "tcp", True)
    assert nic.speed_bytes_per_second == 1.25e9
    assert (nic.received_bytes, nic.transmitted_bytes) == (1000, 2000)
    assert nic.errors == {"rx_errors": 3, "tx_errors": 0, "rx_dropped": 0, "tx_dropped": 0}


def test_interface_without_a_carrier_that_has_carried_something_is_down(add):
    assert add("eth0", carrier="0", operstate="down").read().value[0].up is False


def test_interface_that_is_switched_off_is_told_by_its_state(add):
    """Reading `carrier` fails then."""
    assert add("eth0", carrier=None, operstate="down").read().value[0].up is False


@pytest.mark.parametrize("speed", ["-1", "0", None, "unknown"])
def test_speed_that_nobody_knows_is_unknown(add, speed):
    assert add("lo", speed=speed).read().value[0].speed_bytes_per_second is None


def test_interface_that_never_carried_anything_and_is_down_is_left_out(add):
    add("eth0")
    source = add("sit0", carrier=None, operstate="down", rx_bytes="0", tx_bytes="0")
    assert [nic.device for nic in source.read().value] == ["eth0"]


def test_odd_interface_hides_no_other_and_shows_what_it_has(add):
    add("eth0")
    source = add("odd0", carrier="x", operstate=None, speed="", tx_bytes=None, rx_errors="many")
    odd = source.read().value[1]
    assert (odd.device, odd.up, odd.received_bytes, odd.transmitted_bytes) == ("odd0", None, 1000, None)
    assert "rx_errors" not in odd.errors


def test_file_among_the_interfaces_is_none(add, tmp_path):
    """`bonding_masters` lies there."""
    source = add("eth0")
    (tmp_path / "class/net/bonding_masters").write_text("bond0\n")
    assert [nic.device for nic in source.read().value] == ["eth0"]


def test_host_without_sys_has_no_such_source(tmp_path):
    with pytest.raises(SourceUnavailable, match="/sys"):
        NicSource(tmp_path / "none").read()


def test_this_machine_has_a_loopback():
    lo = next(nic for nic in NicSource().read().value if nic.device == "lo")
    assert lo.received_bytes is not None
