"""Tests of the network cards nearest to a GPU, by their place in the PCI tree."""

from pathlib import Path

import pytest

from tests.agent.sources.trees import FakeSys
from zmon.agent.sources.pci import (
    ELSEWHERE,
    MAX_NEAREST,
    SAME_HOST_BRIDGE,
    SAME_NUMA_NODE,
    SAME_ROOT_PORT,
    distance,
    nearest_nics,
    pci_address,
    pci_chain,
)

# A switch below root port 3a:00.0 with a GPU and a card; another card at root port 3a:02.0; other host bridges.
SWITCH = "pci0000:3a/0000:3a:00.0/0000:3b:00.0"
GPU = f"{SWITCH}/0000:3c:00.0/0000:3d:00.0"
AT_SWITCH = f"{SWITCH}/0000:3c:01.0/0000:3e:00.0"
BELOW_ANOTHER_SWITCH = f"{SWITCH}/0000:3c:02.0/0000:40:00.0/0000:41:00.0/0000:42:00.0"
AT_OTHER_PORT = "pci0000:3a/0000:3a:02.0/0000:50:00.0"
AT_OTHER_BRIDGE = "pci0000:5d/0000:5d:00.0/0000:5e:00.0"
FAR = "pci0000:85/0000:85:00.0/0000:86:00.0"
PLACES = (AT_SWITCH, BELOW_ANOTHER_SWITCH, AT_OTHER_PORT, AT_OTHER_BRIDGE, FAR)
CARDS = {f"mlx5_{number}": place for number, place in enumerate(PLACES)}
NODES = {"mlx5_0": 0, "mlx5_1": 0, "mlx5_2": 0, "mlx5_3": 0, "mlx5_4": 1}


@pytest.fixture
def fake_sys(fake_sys):
    """A /sys with a GPU."""
    fake_sys.pci(GPU, numa_node=0)
    return fake_sys


def add_cards(fake_sys, names):
    for name in names:
        fake_sys.rdma(name, CARDS[name], "mlx5_core")
        fake_sys.pci(CARDS[name], NODES[name])


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/net/eth0", "0000:3b:00.0"),
        ("../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0", "0000:00:03.0"),
        ("../../devices/pci10000:e0/10000:e0:06.0/10000:e1:00.0/infiniband/mlx5_0", "10000:e1:00.0"),
        ("../../devices/LNXSYSTM:00/VMBUS:00/47505500/pcic05b:00/c05b:00:02.0/net/eth1", "c05b:00:02.0"),
        ("../../devices/virtual/net/lo", None),
        ("../../devices/LNXSYSTM:00/VMBUS:00/000d3a6e/net/eth0", None),
        ("", None),
        # A management controller's network: the card on its path is the USB controller.
        ("../../devices/pci0000:00/0000:00:14.0/usb1/1-14/1-14:2.0/net/enx1", None),
    ],
)
def test_address_of_a_card_is_the_last_on_its_path(path, address):
    assert pci_address(path) == address


def test_distance_grows_with_fewer_shared_bridges_and_then_with_hops():
    chains = [pci_chain(path) for path in CARDS.values()]
    distances = [distance(pci_chain(GPU), chain, NODES[name] == 0) for name, chain in zip(CARDS, chains, strict=True)]
    assert [kind for kind, _ in distances] == [
        SAME_ROOT_PORT,
        SAME_ROOT_PORT,
        SAME_HOST_BRIDGE,
        SAME_NUMA_NODE,
        ELSEWHERE,
    ]
    assert distances == sorted(distances)
    assert len(set(distances)) == len(distances)


def test_distance_is_the_same_both_ways():
    gpu, card = pci_chain(GPU), pci_chain(AT_OTHER_PORT)
    assert distance(gpu, card, True) == distance(card, gpu, True)


@pytest.mark.parametrize("first", range(len(CARDS)))
def test_nearest_of_the_existing_ports_is_returned(fake_sys, first):
    names = list(CARDS)[first:]
    add_cards(fake_sys, names)
    assert nearest_nics(fake_sys.root, "0000:3d:00.0") == (f"{names[0]}:1",)


def test_all_equally_near_ports_are_returned(fake_sys):
    fake_sys.rdma("mlx5_0", AT_SWITCH, "mlx5_core", ports=2)
    fake_sys.rdma("mlx5_1", f"{AT_SWITCH[:-1]}1", "mlx5_core")
    assert nearest_nics(fake_sys.root, "0000:3d:00.0") == ("mlx5_0:1", "mlx5_0:2", "mlx5_1:1")


def test_number_of_returned_virtual_functions_is_limited(fake_sys):
    for number in range(MAX_NEAREST + 1):
        fake_sys.rdma(f"mlx5_{number}", f"{AT_SWITCH[:-4]}{number:02x}.0", "mlx5_core")
    assert len(nearest_nics(fake_sys.root, "0000:3d:00.0")) == MAX_NEAREST


def test_cards_with_an_unknown_numa_node_are_equally_far(fake_sys):
    for name, where in {"mlx5_3": AT_OTHER_BRIDGE, "mlx5_4": FAR}.items():
        fake_sys.rdma(name, where, "mlx5_core")
        fake_sys.pci(where, numa_node=-1)
    assert nearest_nics(fake_sys.root, "0000:3d:00.0") == ("mlx5_3:1", "mlx5_4:1")


def test_two_unknown_numa_nodes_are_not_equal(tmp_path):
    fake_sys = FakeSys(tmp_path)
    fake_sys.pci(GPU, numa_node=-1)
    fake_sys.rdma("mlx5_3", AT_OTHER_BRIDGE, "mlx5_core")
    fake_sys.pci(AT_OTHER_BRIDGE, numa_node=-1)
    fake_sys.rdma("mlx5_2", FAR, "mlx5_core")
    fake_sys.pci(FAR, numa_node=0)
    assert nearest_nics(tmp_path, "0000:3d:00.0") == ("mlx5_2:1", "mlx5_3:1")


def test_nearest_nics_are_interfaces_of_cards_on_a_host_without_rdma(fake_sys):
    fake_sys.interface("lo")
    fake_sys.interface("ens1", AT_OTHER_PORT)
    fake_sys.interface("ens2", FAR)
    assert nearest_nics(fake_sys.root, "0000:3d:00.0") == ("ens1",)


def test_rdma_ports_come_before_interfaces_that_are_nearer(fake_sys):
    fake_sys.interface("ens1", AT_SWITCH)
    fake_sys.rdma("mlx5_4", FAR, "mlx5_core")
    assert nearest_nics(fake_sys.root, "0000:3d:00.0") == ("mlx5_4:1",)


def test_software_rdma_device_is_not_near_any_card_nor_is_any_card_near_a_missing_gpu(fake_sys):
    assert nearest_nics(fake_sys.root, "0000:3d:00.0") == ()
    fake_sys.rdma("rxe0", "virtual", "rxe")
    assert nearest_nics(fake_sys.root, "0000:3d:00.0") == ()
    add_cards(fake_sys, ["mlx5_0"])
    assert nearest_nics(fake_sys.root, "0000:99:00.0") == ()


def test_network_card_of_this_machine_is_nearest_to_itself():
    fake_sys = Path("/sys")
    cards = [link for link in fake_sys.glob("class/net/*") if link.is_symlink() and pci_address(str(link.readlink()))]
    if not cards or any(fake_sys.glob("class/infiniband/*")):
        pytest.skip("this machine has no network card, or RDMA ports that come first")
    assert cards[0].name in nearest_nics(fake_sys, pci_address(str(cards[0].readlink())))
