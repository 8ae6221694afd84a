"""Tests of the network cards nearest to a GPU, by their place in the PCI tree."""

import pytest

from tests.agent.sources.trees import FakeSys
from zmon.agent.sources.pci import MAX_NEAREST, nearest_nics, pci_address

# A switch below root port 3a:00.0 with a GPU and a card; another card at root port 3a:02.0; other host bridges.
SWITCH = "pci0000:3a/0000:3a:00.0/0000:3b:00.0"
GPU_ADDRESS = "0000:3d:00.0"
GPU = f"{SWITCH}/0000:3c:00.0/{GPU_ADDRESS}"
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
    """Return a /sys with a GPU."""
    fake_sys.pci(GPU, numa_node=0)
    return fake_sys


def add_cards(fake_sys, names):
    """Add these cards of CARDS, each with its NUMA node."""
    for name in names:
        fake_sys.rdma(name, CARDS[name], "mlx5_core")
        fake_sys.pci(CARDS[name], NODES[name])


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("../../devices/pci10000:e0/10000:e0:06.0/10000:e1:00.0/infiniband/mlx5_0", "10000:e1:00.0"),
        ("../../devices/LNXSYSTM:00/VMBUS:00/47505500/pcic05b:00/c05b:00:02.0/net/eth1", "c05b:00:02.0"),
        ("../../devices/LNXSYSTM:00/VMBUS:00/000d3a6e/net/eth0", None),
        ("", None),
        # A management controller's network: the card on its path is the USB controller.
        ("../../devices/pci0000:00/0000:00:14.0/usb1/1-14/1-14:2.0/net/enx1", None),
    ],
)
def test_address_of_a_card_is_the_last_on_its_path(path, address):
    assert pci_address(path) == address


@pytest.mark.parametrize("first", range(len(CARDS)))
def test_nearest_of_the_existing_ports_is_returned(fake_sys, first):
    names = list(CARDS)[first:]
    add_cards(fake_sys, names)
    assert nearest_nics(fake_sys.root, GPU_ADDRESS) == (f"{names[0]}:1",)


def test_all_equally_near_ports_are_returned(fake_sys):
    fake_sys.rdma("mlx5_0", AT_SWITCH, "mlx5_core", ports=2)
    fake_sys.rdma("mlx5_1", f"{AT_SWITCH[:-1]}1", "mlx5_core")
    assert nearest_nics(fake_sys.root, GPU_ADDRESS) == ("mlx5_0:1", "mlx5_0:2", "mlx5_1:1")


def test_number_of_returned_virtual_functions_is_limited(fake_sys):
    for number in range(MAX_NEAREST + 1):
        fake_sys.rdma(f"mlx5_{number}", f"{AT_SWITCH[:-4]}{number:02x}.0", "mlx5_core")
    assert len(nearest_nics(fake_sys.root, GPU_ADDRESS)) == MAX_NEAREST


def test_cards_with_an_unknown_numa_node_are_equally_far(fake_sys):
    for name, where in {"mlx5_3": AT_OTHER_BRIDGE, "mlx5_4": FAR}.items():
        fake_sys.rdma(name, where, "mlx5_core")
        fake_sys.pci(where, numa_node=-1)
    assert nearest_nics(fake_sys.root, GPU_ADDRESS) == ("mlx5_3:1", "mlx5_4:1")


def test_two_unknown_numa_nodes_are_not_equal(tmp_path):
    fake_sys = FakeSys(tmp_path)
    fake_sys.pci(GPU, numa_node=-1)
    fake_sys.rdma("mlx5_3", AT_OTHER_BRIDGE, "mlx5_core")
    fake_sys.pci(AT_OTHER_BRIDGE, numa_node=-1)
    fake_sys.rdma("mlx5_2", FAR, "mlx5_core")
    fake_sys.pci(FAR, numa_node=0)
    assert nearest_nics(tmp_path, GPU_ADDRESS) == ("mlx5_2:1", "mlx5_3:1")


def test_nearest_nics_are_interfaces_of_cards_on_a_host_without_rdma(fake_sys):
    fake_sys.interface("lo")
    fake_sys.interface("ens1", AT_OTHER_PORT)
    fake_sys.interface("ens2", FAR)
    assert nearest_nics(fake_sys.root, GPU_ADDRESS) == ("ens1",)


def test_rdma_ports_come_before_interfaces_that_are_nearer(fake_sys):
    fake_sys.interface("ens1", AT_SWITCH)
    fake_sys.rdma("mlx5_4", FAR, "mlx5_core")
    assert nearest_nics(fake_sys.root, GPU_ADDRESS) == ("mlx5_4:1",)


def test_software_rdma_device_is_not_near_any_card_nor_is_any_card_near_a_missing_gpu(fake_sys):
    assert nearest_nics(fake_sys.root, GPU_ADDRESS) == ()
    fake_sys.rdma("rxe0", "virtual", "rxe")
    assert nearest_nics(fake_sys.root, GPU_ADDRESS) == ()
    add_cards(fake_sys, ["mlx5_0"])
    assert nearest_nics(fake_sys.root, "0000:99:00.0") == ()
