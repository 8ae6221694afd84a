"""Tests of network interfaces: traffic, link state and errors, and which are read where there are many.

A malformed interface hides no other interface.
"""

import pytest

from tests.agent.sources.trees import UNREADABLE
from zmon.agent.sources import nic
from zmon.agent.sources.nic import ERROR_COUNTERS, MAX_INTERFACES, SPEED_READS, NicSource
from zmon.errors import SourceUnavailable

CARD = "pci0000:3a/0000:3a:00.0/0000:3b:00.0"
LISTING_READS = 3  # fewer than in an agent, because each read reads hundreds of files
LAST_CALI = f"cali{MAX_INTERFACES - 5:05d}"  # that is read: the first one is 0, and four other interfaces go before
DOWN = {"carrier": None, "speed": None, "operstate": "down"}  # both files are missing


@pytest.fixture
def source(tmp_path):
    """Return the source that reads the fake /sys."""
    return NicSource(tmp_path)


def read_by_name(source):
    """Return the samples of the interfaces by name."""
    return {sample.device: sample for sample in source.read().value}


NO_ERRORS = dict.fromkeys(ERROR_COUNTERS, 0)
VIRTUAL = {"received_bytes": 1000, "pci": None, "errors": NO_ERRORS | {"rx_dropped": 4}}
SHOWN = {  # name and place of an interface, its files, and fields of its sample
    "card": (
        ("eth0", CARD), {"rx_errors": 3, "carrier_down_count": 1},
        {"device": "eth0", "transport": "tcp", "up": True, "bond": None, "pci": "0000:3b:00.0",
         "speed_bytes_per_second": 1.25e9, "received_bytes": 1000, "transmitted_bytes": 2000,
         "errors": NO_ERRORS | {"rx_errors": 3, "carrier_down_count": 1}},
    ),
    "virtio: the address of its device": (
        ("eth0", "pci0000:00/0000:00:03.0/virtio2"), {}, {"pci": "0000:00:03.0"}
    ),
    **{f"virtual: {name}": ((name,), {"rx_dropped": 4}, VIRTUAL) for name in ("lo", "bond0", "eth0.100", "veth1a2b")},
    **{
        f"operstate {state}": (("eth0", CARD), {"operstate": state}, {"up": up})
        for state, up in {
            "up": True, "unknown": True, "down": False, "lowerlayerdown": False, "dormant": False, None: None
        }.items()
    },
    # A read of `carrier` waits for a lock that the kernel holds for seconds while containers end.
    "carrier that is never read": (("eth0", CARD), {"carrier": UNREADABLE}, {"up": True}),
    "disabled": (("eth0", CARD), DOWN, {"up": False, "speed_bytes_per_second": None}),
    **{f"speed {speed}": (("lo",), {"speed": speed}, {"speed_bytes_per_second": None}) for speed in ("-1", "0", None)},
    # No report to a hub could be encoded with it.
    "name that is not UTF-8": (("eth\udcff", CARD), {}, {"device": "eth\N{REPLACEMENT CHARACTER}"}),
    "idle": (("eth0", CARD), {"rx_bytes": 0, "tx_bytes": 0}, {"received_bytes": 0, "transmitted_bytes": 0}),
}  # fmt: skip


@pytest.mark.parametrize(("interface", "files", "fields"), SHOWN.values(), ids=SHOWN)
def test_sample_of_an_interface_has_the_values_of_its_files(fake_sys, source, interface, files, fields):
    fake_sys.interface(*interface, **files)
    reading = source.read()
    (sample,) = reading.value
    assert {name: getattr(sample, name) for name in fields} == fields
    assert reading.dropped == ()


def test_only_a_member_of_a_bond_shows_a_bond(fake_sys, source):
    for name, where in {"bond0": "virtual", "eth0": CARD, "eth1": f"{CARD[:-1]}1"}.items():
        fake_sys.interface(name, where)
    fake_sys.bond("bond0", "eth0", "eth1")  # this also writes `bonding_masters`, a file beside the interfaces
    port_of_bridge = fake_sys.interface("veth0")
    (port_of_bridge / "master").symlink_to("../docker0")
    bonds = {"bond0": None, "eth0": "bond0", "eth1": "bond0", "veth0": None}
    assert {name: sample.bond for name, sample in read_by_name(source).items()} == bonds


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
    assert SPEED_READS * NicSource.interval_seconds <= 60


def test_interface_that_is_down_without_any_traffic_is_left_out(fake_sys, source):
    fake_sys.interface("eth0", CARD)
    fake_sys.interface("sit0", rx_bytes=0, tx_bytes=0, **DOWN)
    assert list(read_by_name(source)) == ["eth0"]
    assert source.read().dropped == ()


def test_malformed_interface_shows_its_valid_values_and_hides_no_other(fake_sys, source):
    fake_sys.interface("eth0", CARD)
    fake_sys.interface("odd0", operstate="x", speed="", tx_bytes=UNREADABLE, rx_errors="many")
    reading = source.read()
    odd = reading.value[1]
    assert (odd.device, odd.up, odd.received_bytes, odd.transmitted_bytes) == ("odd0", None, 1000, None)
    assert "rx_errors" not in odd.errors
    assert reading.dropped == ("odd0: operstate has odd content: 'x'",)


@pytest.mark.parametrize(
    ("add", "dropped"),
    [
        (
            lambda fake: fake.interface("gone0", files={"operstate": UNREADABLE}),
            ("gone0: cannot read operstate: Is a directory",),
        ),
        (lambda fake: (fake.root / "class/net/odd").write_text("odd\n"), ("odd: Not a directory",)),
        (lambda fake: (fake.root / "class/net/veth0").symlink_to("../../devices/virtual/net/veth0"), ()),
    ],
    ids=["unreadable", "file", "deleted after the listing"],
)
def test_interface_that_cannot_be_read_is_left_out_and_hides_no_other(fake_sys, source, add, dropped):
    fake_sys.interface("eth0", CARD)
    add(fake_sys)
    reading = source.read()
    assert [sample.device for sample in reading.value] == ["eth0"]
    assert reading.dropped == dropped


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


def test_this_machine_has_a_loopback_without_a_card():
    reading = NicSource().read()
    lo = next(sample for sample in reading.value if sample.device == "lo")
    assert lo.received_bytes is not None
    assert lo.pci is None
    assert not any(line.startswith("lo:") for line in reading.dropped)


@pytest.mark.parametrize(("folder", "hint"), [("none", "/sys"), ("class/net", "mount the host's /sys")])
def test_host_without_sys_or_any_interface_reports_the_source_as_absent(tmp_path, folder, hint):
    """Even loopback is missing in a container without the host's /sys."""
    (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(SourceUnavailable, match=hint):
        NicSource(tmp_path).read()


@pytest.fixture
def add_many_interfaces(fake_sys):
    """Return a function that adds interfaces: many of containers, loopback, and two cards, one of them in a bond."""

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
    assert {"lo", "ens1", "ens2", "team0", "cali00000", LAST_CALI} <= set(names)
    assert names == sorted(names)
    assert reading.dropped == (f"{10_000 - MAX_INTERFACES} of 10000 interfaces: at most {MAX_INTERFACES} are read",)


def test_long_listing_is_repeated_only_after_some_reads(add_many_interfaces, fake_sys, source, monkeypatch):
    monkeypatch.setattr(nic, "LISTING_READS", LISTING_READS)
    add_many_interfaces(2 * MAX_INTERFACES)
    listings = []
    names_in = nic.names_in
    monkeypatch.setattr(nic, "names_in", lambda folder: listings.append(folder) or names_in(folder))
    for _ in range(2 * LISTING_READS):
        source.read()
    assert len(listings) == 1 + 2
    fake_sys.interface("ens3", CARD)
    assert ["ens3" in read_by_name(source) for _ in range(LISTING_READS)] == [False, False, True]


def test_cards_are_still_chosen_when_the_listing_grows_long(add_many_interfaces, fake_sys, source):
    fake_sys.interface("zcard", CARD)
    source.read()
    add_many_interfaces(2 * MAX_INTERFACES)
    assert "zcard" in read_by_name(source)
