"""Tests of the memory that the probe reads of a GPU, on a machine without one."""

import torch

from tests.probe.hooks.scripts import run_script
from zmon.probe.hooks.device import read_memory


def test_memory_is_unknown_without_a_gpu(start_rank):
    assert run_script(start_rank, "print(timeline.ledger.memory_reader())") == ["None"]


def test_memory_is_unknown_with_an_allocator_that_does_not_count(monkeypatch):
    """With an error, the step at whose end the memory is read would be lost."""

    def refuse():
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", refuse)
    assert read_memory() is None
