"""Tests of hosts with more network interfaces than are read: which ones are chosen, and how often they are listed."""

import pytest

from zmon.agent.sources import nic
from zmon.agent.sources.nic import LISTING_READS, MAX_INTERFACES, NicSource, choose

CARD = "pci0000:3a/0000:3a:00.0/0000:3b:00.0"
LAST_CALI = f"cali{MAX_INTERFACES - 5:05d}"  # that is read: the first one is 0, and four other interfaces go before


@pytest.fixture
def source(tmp_path):
    return NicSource(tmp_path)


def names_read(source):
    return [sample.device for sample in source.read().value]


@pytest.fixture
def add_many_interfaces(fake_sys):
    """Add this number of interfaces: those of containers, loopback, and two cards, one of which is a bond's member."""

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
    read = [names_read(source) for _ in range(LISTING_READS)]
    assert chosen == [200, 201]
    assert "ens3" in read[-1]


def test_cards_are_still_chosen_when_the_listing_grows_long(fake_sys, source):
    fake_sys.interface("zcard", CARD)
    source.read()
    for number in range(MAX_INTERFACES):
        fake_sys.interface(f"veth{number}")
    assert "zcard" in names_read(source)
