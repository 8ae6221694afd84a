"""Tests of the GPU that the agent assigns to each rank whose box does not contain the UUID of a GPU."""

import pytest

from tests.build import rank_state
from zmon.agent.devices import Devices
from zmon.schema.host import GpuSample

CARDS = (GpuSample("0", "GPU-a", pids=(77, 99)), GpuSample("1", "GPU-b", pids=(88, 99)))


def device_of_rank(pid, cards=CARDS, in_box="cpu"):
    """Return the device of a rank, given the device in its box and the cards of the host."""
    (state,) = Devices().add([(rank_state(0, device=in_box), pid)], cards)
    return state.device


@pytest.mark.parametrize("in_box", ["cpu", "cuda:0", ""])
def test_device_without_uuid_becomes_the_card_of_the_process(in_box):
    assert device_of_rank(88, in_box=in_box) == "GPU-b"


@pytest.mark.parametrize("uuid", ["GPU-z", "MIG-z"])
def test_device_is_the_uuid_in_the_box(uuid):
    assert device_of_rank(88, in_box=uuid) == uuid


@pytest.mark.parametrize("pid", [66, 99])
def test_device_is_unchanged_if_the_process_uses_no_card_or_several(pid):
    assert device_of_rank(pid) == "cpu"


def test_rank_in_another_pid_namespace_has_no_card():
    assert device_of_rank(0, (GpuSample("0", "GPU-a", pids=(0,)),)) == "cpu"


def test_process_on_a_mig_instance_has_the_instance_as_device():
    """A card in MIG mode also lists the processes of its instances."""
    split = (GpuSample("0", "GPU-a", mig=True, pids=(77,)), GpuSample("0:1", "MIG-b", pids=(77,)))
    assert device_of_rank(77, split) == "MIG-b"


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
