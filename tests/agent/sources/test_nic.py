"""Tests of network interfaces: traffic, link state and errors.

A malformed interface hides no other interface. At most a fixed number of interfaces is read.
"""

import pytest

from tests.agent.sources.trees import UNREADABLE, FakeSys
from zmon.agent.sources import nic
from zmon.agent.sources.nic import ERROR_COUNTERS, LISTING_READS, MAX_INTERFACES, SPEED_READS, NicSource, choose
from zmon.errors import SourceUnavailable

CARD = "pci0000:3a/0000:3a:00.0/0000:3b:00.0"
DOWN = {"carrier": None, "speed": None, "operstate": "down"}  # both files are missing


@pytest.fixture
def fake_sys(tmp_path):
    return FakeSys(tmp_path)


@pytest.fixture
def source(tmp_path):
    return NicSource(tmp_path)


def read_by_name(source):
    return {sample.device: sample for sample in source.read().value}


def test_interface_shows_link_speed_bytes_errors_and_card(fake_sys, source):
    fake_sys.interface("eth0", CARD, rx_errors=3, carrier_down_count=1)
    (eth0,) = source.read().value
    assert (eth0.device, eth0.transport, eth0.up, eth0.bond, eth0.pci) == ("eth0", "tcp", True, None, "0000:3b:00.0")
    assert eth0.speed_bytes_per_second == 1.25e9
    assert (eth0.received_bytes, eth0.transmitted_bytes) == (1000, 2000)
    assert eth0.errors == dict.fromkeys(ERROR_COUNTERS, 0) | {"rx_errors": 3, "carrier_down_count": 1}


def test_virtio_card_has_the_address_of_its_device(fake_sys, source):
    fake_sys.interface("eth0", "pci0000:00/0000:00:03.0/virtio2")
    assert read_by_name(source)["eth0"].pci == "0000:00:03.0"


@pytest.mark.parametrize("name", ["lo", "bond0", "eth0.100", "veth1a2b"])
def test_virtual_interface_shows_its_counters_and_has_no_card(fake_sys, source, name):
    fake_sys.interface(name, rx_dropped=4)
    sample = read_by_name(source)[name]
    assert (sample.received_bytes, sample.errors["rx_dropped"], sample.pci) == (1000, 4, None)


def test_member_of_a_bond_shows_the_bond(fake_sys, source):
    for name, where in {"bond0": "virtual", "eth0": CARD, "eth1": f"{CARD[:-1]}1"}.items():
        fake_sys.interface(name, where)
    fake_sys.bond("bond0", "eth0", "eth1")
    assert {name: sample.bond for name, sample in read_by_name(source).items()} == {
        "bond0": None,
        "eth0": "bond0",
        "eth1": "bond0",
    }


def test_port_of_a_bridge_is_not_a_member_of_a_bond(fake_sys, source):
    folder = fake_sys.interface("veth0")
    (folder / "master").symlink_to("../docker0")
    assert read_by_name(source)["veth0"].bond is None


@pytest.mark.parametrize(
    ("operstate", "up"),
    [("up", True), ("unknown", True), ("down", False), ("lowerlayerdown", False), ("dormant", False), (None, None)],
)
def test_link_is_up_or_down_by_operstate(fake_sys, source, operstate, up):
    fake_sys.interface("eth0", CARD, operstate=operstate)
    assert read_by_name(source)["eth0"].up is up


def test_carrier_is_never_read(fake_sys, source):
    """A read of `carrier` waits for a lock that the kernel holds for seconds while containers end."""
    fake_sys.interface("eth0", CARD, carrier=UNREADABLE)
    reading = source.read()
    assert (reading.value[0].up, reading.dropped) == (True, ())


def test_disabled_interface_has_no_speed_and_is_not_reported(fake_sys, source):
    fake_sys.interface("eth0", CARD, **DOWN)
    reading = source.read()
    assert (reading.value[0].up, reading.value[0].speed_bytes_per_second, reading.dropped) == (False, None, ())


def test_speed_is_read_again_after_the_link_came_back(fake_sys, source):
    folder = fake_sys.interface("eth0", CARD)
    source.read()
    (folder / "speed").write_text("1000\n")
    assert read_by_name(source)["eth0"].speed_bytes_per_second == 1.25e9
    (folder / "carrier_down_count").write_text("1\n")
    assert read_by_name(source)["eth0"].speed_bytes_per_second == 1.25e8


def test_speed_of_a_bond_that_lost_a_member_is_updated_within_a_minute(fake_sys, source):
    folder = fake_sys.interface("bond0", speed=20000)
    source.read()
    (folder / "speed").write_text("10000\n")
    speeds = [read_by_name(source)["bond0"].speed_bytes_per_second for _ in range(SPEED_READS)]
    assert (speeds[0], speeds[-1]) == (2.5e9, 1.25e9)


@pytest.mark.parametrize("speed", ["-1", "0", None])
def test_missing_speed_is_unknown_and_not_reported(fake_sys, source, speed):
    fake_sys.interface("lo", speed=speed)
    assert read_by_name(source)["lo"].speed_bytes_per_second is None
    assert source.read().dropped == ()


def test_interface_that_is_down_without_any_traffic_is_left_out(fake_sys, source):
    fake_sys.interface("eth0", CARD)
    fake_sys.interface("sit0", rx_bytes=0, tx_bytes=0, **DOWN)
    assert list(read_by_name(source)) == ["eth0"]
    assert source.read().dropped == ()


def test_idle_interface_that_is_up_has_zero_bytes(fake_sys, source):
    fake_sys.interface("eth0", CARD, rx_bytes=0, tx_bytes=0)
    assert read_by_name(source)["eth0"].received_bytes == 0


def test_malformed_interface_shows_its_valid_values_and_hides_no_other(fake_sys, source):
    fake_sys.interface("eth0", CARD)
    fake_sys.interface("odd0", operstate="x", speed="", tx_bytes=UNREADABLE, rx_errors="many")
    reading = source.read()
    odd = reading.value[1]
    assert (odd.device, odd.up, odd.received_bytes, odd.transmitted_bytes) == ("odd0", None, 1000, None)
    assert "rx_errors" not in odd.errors
    assert reading.dropped == ("odd0: operstate has odd content: 'x'",)


def test_unreadable_interface_is_left_out_and_reported(fake_sys, source):
    fake_sys.interface("eth0", CARD)
    fake_sys.interface("gone0", files={"operstate": UNREADABLE})
    reading = source.read()
    assert [sample.device for sample in reading.value] == ["eth0"]
    assert reading.dropped == ("gone0: cannot read operstate: Is a directory",)


def test_interface_deleted_after_the_listing_is_not_reported(fake_sys, source):
    fake_sys.interface("eth0", CARD)
    (fake_sys.root / "class/net/veth0").symlink_to("../../devices/virtual/net/veth0")
    assert list(read_by_name(source)) == ["eth0"]
    assert source.read().dropped == ()


def test_file_in_the_folder_of_interfaces_is_reported(fake_sys, source):
    fake_sys.interface("eth0", CARD)
    (fake_sys.root / "class/net/odd").write_text("odd\n")
    assert list(read_by_name(source)) == ["eth0"]
    assert source.read().dropped == ("odd: Not a directory",)


def test_list_of_bonds_is_not_an_interface(fake_sys, source):
    fake_sys.interface("bond0")
    fake_sys.bond("bond0")
    assert list(read_by_name(source)) == ["bond0"]


def test_counter_continues_when_the_interface_is_created_again(fake_sys, source):
    folder = fake_sys.interface("eth0", CARD, rx_bytes=5000)
    source.read()
    (folder / "statistics/rx_bytes").write_text("100\n")
    assert read_by_name(source)["eth0"].received_bytes == 5100


def test_interface_missing_in_a_read_starts_again_from_its_counter(fake_sys, source):
    fake_sys.interface("eth0", CARD)
    fake_sys.interface("veth0", rx_bytes=5000)
    source.read()
    link = fake_sys.root / "class/net/veth0"
    target = link.readlink()
    link.unlink()
    assert list(read_by_name(source)) == ["eth0"]
    link.symlink_to(target)
    (link / "statistics/rx_bytes").write_text("100\n")
    assert read_by_name(source)["veth0"].received_bytes == 100


def test_new_interface_is_in_the_next_read(fake_sys, source):
    fake_sys.interface("eth0", CARD)
    source.read()
    fake_sys.interface("eth1", CARD)
    assert list(read_by_name(source)) == ["eth0", "eth1"]


# -- thousands of interfaces -------------------------------------------------------------------------------


@pytest.fixture
def add_many_interfaces(fake_sys):
    """Make a host with many containers and two cards, one of which is the only member of a bond."""

    def make(number):
        veth = fake_sys.interface("veth")
        for name in [f"cali{index:05d}" for index in range(number - 5)]:
            (fake_sys.root / "class/net" / name).symlink_to(f"../../{veth.relative_to(fake_sys.root)}")
        for name, where in {"lo": "virtual", "ens1": CARD, "ens2": f"{CARD[:-1]}1", "team0": "virtual"}.items():
            fake_sys.interface(name, where)
        fake_sys.bond("team0", "ens2")

    return make


def test_cards_bonds_and_loopback_are_read_among_ten_thousand_interfaces(add_many_interfaces, source):
    add_many_interfaces(10_000)
    reading = source.read()
    names = [sample.device for sample in reading.value]
    assert len(names) == MAX_INTERFACES
    assert {"lo", "ens1", "ens2", "team0", "cali00000", "cali00059"} <= set(names)
    assert names == sorted(names)
    assert reading.dropped == ("9936 of 10000 interfaces: at most 64 are read",)


def test_long_listing_is_not_repeated_at_every_read(add_many_interfaces, source, monkeypatch):
    add_many_interfaces(200)
    listings = []
    names_in = nic.names_in
    monkeypatch.setattr(nic, "names_in", lambda folder: listings.append(folder) or names_in(folder))
    for _ in range(3 * LISTING_READS):
        source.read()
    assert len(listings) == 1 + 3


def test_choice_is_made_again_only_for_a_new_listing(add_many_interfaces, fake_sys, source, monkeypatch):
    add_many_interfaces(200)
    chosen = []
    monkeypatch.setattr(nic, "choose", lambda names, first: chosen.append(len(names)) or choose(names, first))
    for _ in range(2 * LISTING_READS):
        source.read()
    assert chosen == [200]
    fake_sys.interface("ens3", CARD)
    read = [read_by_name(source) for _ in range(LISTING_READS)]
    assert chosen == [200, 201]
    assert "ens3" in read[-1]


def test_cards_are_still_chosen_when_the_listing_grows_long(fake_sys, source):
    fake_sys.interface("zcard", CARD)
    source.read()
    for number in range(MAX_INTERFACES):
        fake_sys.interface(f"veth{number}")
    assert "zcard" in read_by_name(source)


def test_preferred_interfaces_are_chosen_before_the_others_by_name():
    names = frozenset(f"a{number:03d}" for number in range(MAX_INTERFACES)) | {"lo", "zcard"}
    chosen = choose(names, frozenset({"lo", "zcard"}))
    assert len(chosen) == MAX_INTERFACES
    assert {"lo", "zcard", "a000", "a061"} <= set(chosen)
    assert "a062" not in chosen


def test_host_without_sys_reports_the_source_as_absent(tmp_path):
    with pytest.raises(SourceUnavailable, match="/sys"):
        NicSource(tmp_path / "none").read()


def test_this_machine_has_a_loopback_without_a_card():
    reading = NicSource().read()
    lo = next(sample for sample in reading.value if sample.device == "lo")
    assert lo.received_bytes is not None
    assert lo.pci is None
    assert reading.dropped == ()


def test_source_is_absent_without_any_interface(tmp_path):
    """Even loopback is missing in a container without the host's /sys."""
    (tmp_path / "class/net").mkdir(parents=True)
    with pytest.raises(SourceUnavailable, match="mount the host's /sys"):
        NicSource(tmp_path).read()
