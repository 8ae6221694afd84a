"""Tests of the GPU that the agent assigns to each rank whose box does not contain the UUID of a GPU."""

import pytest

from tests.build import rank_state
from zmon.agent.devices import Devices
from zmon.schema.host import GpuSample

CARDS = (GpuSample("0", "GPU-a", pids=(77, 99)), GpuSample("1", "GPU-b", pids=(88, 99)))
# A card in MIG mode also lists the processes of its instances.
SPLIT = (GpuSample("0", "GPU-a", mig=True, pids=(77,)), GpuSample("0:1", "MIG-b", pids=(77,)))


@pytest.mark.parametrize(
    ("in_box", "pid", "cards", "device"),
    [
        pytest.param("cpu", 88, CARDS, "GPU-b", id="the card of its process"),
        pytest.param("cuda:0", 88, CARDS, "GPU-b", id="a number is no UUID"),
        pytest.param("", 88, CARDS, "GPU-b", id="nothing in the box"),
        pytest.param("GPU-z", 88, CARDS, "GPU-z", id="the UUID of a card in the box"),
        pytest.param("MIG-z", 88, CARDS, "MIG-z", id="the UUID of an instance in the box"),
        pytest.param("cpu", 77, SPLIT, "MIG-b", id="the instance of its process"),
        pytest.param("cpu", 66, CARDS, "cpu", id="no card"),
        pytest.param("cpu", 99, CARDS, "cpu", id="several cards"),
        pytest.param("cpu", 0, (GpuSample("0", "GPU-a", pids=(0,)),), "cpu", id="another PID namespace"),
    ],
)
def test_device_of_a_rank_is_the_uuid_in_its_box_or_the_only_card_of_its_process(in_box, pid, cards, device):
    (state,) = Devices().add([(rank_state(0, device=in_box), pid)], cards)
    assert state.device == device


def test_card_of_a_rank_is_remembered_after_the_card_is_lost():
    """A finding about a lost card must still name its rank."""
    devices, ranks = Devices(), [(rank_state(0), 77)]
    devices.add(ranks, CARDS)
    assert [state.device for state in devices.add(ranks, (GpuSample("0", "GPU-a", lost=True),))] == ["GPU-a"]
    assert [state.device for state in devices.add(ranks, ())] == ["GPU-a"]


def test_devices_of_ended_ranks_are_forgotten():
    devices, ranks = Devices(), [(rank_state(0), 77), (rank_state(1), 88)]
    devices.add(ranks, CARDS)
    devices.keep(["uid-1"])
    assert [state.device for state in devices.add(ranks, ())] == ["cpu", "GPU-b"]
