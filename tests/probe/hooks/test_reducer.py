"""Tests of how a reducer knows that its module took part in a backward pass, without ranks; test_ddp has ranks."""

from types import SimpleNamespace

import pytest
import torch

from zmon.probe.hooks.reducer import Reducer


class Module:
    """A DDP module whose backward passes set when each gradient was ready."""

    def __init__(self):
        self.ready_times = [0, 0, 0]
        self.reducer = SimpleNamespace(get_backward_stats=lambda: self.ready_times)

    def backward(self, *ready_times):
        self.ready_times = [*ready_times]


@pytest.fixture
def module():
    """Return a module after its first backward pass, which its reducer has noted."""
    module = Module()
    module.watch = Reducer(module, [torch.zeros(1)] * 3, is_sparse=False)
    assert not module.watch.note_backward(module)
    module.backward(700, 650, 90)
    assert module.watch.note_backward(module)
    return module


@pytest.mark.parametrize("ready_times", [(701, 650, 91), (700, 651, 91)])
def test_backward_is_noted_although_one_gradient_took_exactly_as_long_as_before(module, ready_times):
    module.backward(*ready_times)
    assert module.watch.note_backward(module)


def test_backward_that_raised_before_the_first_parameters_is_not_noted(module):
    module.backward(700, 650, 91)
    assert not module.watch.note_backward(module)


def test_module_that_took_no_part_is_not_noted(module):
    assert not module.watch.note_backward(module)
