"""On which card does a rank compute, where its box does not say?"""

import pytest

from tests.build import rank_state
from zmon.agent.devices import Devices
from zmon.schema.host import GpuSample

CARDS = (GpuSample("0", "GPU-a", pids=(77, 99)), GpuSample("1", "GPU-b", pids=(88, 99)))


def device(pid, cards=CARDS, said="cpu"):
    """Of the one rank, once these cards were seen."""
    (state,) = Devices().add([(rank_state(0, device=said), pid)], cards)
    return state.device


@pytest.mark.parametrize("said", ["cpu", "cuda:0", ""])
def test_device_that_is_no_uuid_becomes_that_of_the_card_the_process_is_on(said):
    assert device(88, said=said) == "GPU-b"


@pytest.mark.parametrize("uuid", ["GPU-z", "MIG-z"])
def test_uuid_in_the_box_is_believed(uuid):
    assert device(88, said=uuid) == uuid


@pytest.mark.parametrize("pid", [66, 99])
def test_process_on_no_card_or_on_several_is_no_reason_to_guess(pid):
    assert device(pid) == "cpu"


def test_rank_of_another_pid_namespace_has_no_pid_here_and_no_card():
    assert device(0, (GpuSample("0", "GPU-a", pids=(0,)),)) == "cpu"


def test_process_on_an_instance_of_a_split_card_is_on_the_instance():
    """The card tells the processes of its instances, too."""
    split = (GpuSample("0", "GPU-a", mig=True, pids=(77,)), GpuSample("0:1", "MIG-b", pids=(77,)))
    assert device(77, split) == "MIG-b"


def test_card_is_known_when_it_is_lost_and_the_driver_with_it():
    """That is when people want to know whose it was."""
    devices, ranks = Devices(), [(rank_state(0), 77)]
    devices.add(ranks, CARDS)
    assert [state.device for state in devices.add(ranks, (GpuSample("0", "GPU-a", lost=True),))] == ["GPU-a"]
    assert [state.device for state in devices.add(ranks, ())] == ["GPU-a"]


def test_rank_that_is_gone_is_forgotten():
    devices, ranks = Devices(), [(rank_state(0), 77), (rank_state(1), 88)]
    devices.add(ranks, CARDS)
    devices.keep(["uid-1"])
    assert [state.device for state in devices.add(ranks, ())] == ["cpu", "GPU-b"]
