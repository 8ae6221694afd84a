"""On which card a rank computes: its own word, else the driver's, else nobody's."""

import pytest

from tests.build import rank_state
from zmon.agent.devices import with_device
from zmon.hardware import GpuSample

GPUS = (GpuSample("0", "GPU-aa", pids=(7, 9)), GpuSample("1", "GPU-bb", pids=(8, 9)))


@pytest.mark.parametrize("device", ["cpu", "1", "cuda:1", ""])
def test_device_that_is_no_uuid_becomes_that_of_the_card_the_process_is_on(device):
    assert with_device(rank_state(device=device), 8, GPUS).device == "GPU-bb"


@pytest.mark.parametrize("uuid", ["GPU-cc", "MIG-dd"])
def test_uuid_in_the_box_is_believed(uuid):
    assert with_device(rank_state(device=uuid), 8, GPUS).device == uuid


@pytest.mark.parametrize("pid", [1000, 9])
def test_process_on_no_card_or_on_several_is_no_reason_to_guess(pid):
    assert with_device(rank_state(device="cpu"), pid, GPUS).device == "cpu"


def test_rank_of_another_pid_namespace_has_no_pid_here_and_no_card():
    assert with_device(rank_state(device="cpu"), 0, (GpuSample("0", "GPU-aa", pids=(0,)),)).device == "cpu"


def test_card_is_the_same_once_it_is_known():
    state = rank_state(device="cpu")
    assert with_device(state, 8, ()) is state


def test_process_on_an_instance_of_a_split_card_is_on_the_instance():
    """The card tells the processes of its instances, too."""
    split = (GpuSample("0", "GPU-a", mig=True, pids=(77,)), GpuSample("0:1", "MIG-b", pids=(77,)))
    assert with_device(rank_state(0, device="cuda:0"), 77, split).device == "MIG-b"
