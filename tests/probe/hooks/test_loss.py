"""Tests of the loss with which a backward pass begins, which is read without an effect on the job.

A rank reads losses on the CPU; those on a GPU are read with a fake device.
"""

from types import SimpleNamespace

import pytest

from tests.probe.fake_device import Device
from tests.probe.hooks.scripts import cases
from zmon.probe.hooks.loss import MAX_SENT, DeviceLosses

START = """
from zmon.probe.hooks import loss as hook_of_loss
warnings.simplefilter("error")
def since():
    # Return the step since which losses of backward passes are not finite.
    step = timeline.ledger.losses._since[0]
    return {layout.UNKNOWN: "unknown", layout.FINITE: "finite"}.get(step, step)
nan = float("nan")
weight = torch.ones(2, requires_grad=True)
train()
timeline.ledger.losses._since[0] = layout.UNKNOWN
hook_of_loss._finite_on = None
"""

CASES = """
== loss on the CPU is read in its step
(weight.sum() * nan).backward()
print(since(), weight.grad.isnan().all().item())  # > 2 True

== one number in a dimension of its own
(weight.sum() * nan).reshape(1, 1).backward()
print(since())  # > 2

== step with a finite loss ends the run once the next one begins
(weight.sum() * nan).backward()
train(times=2)
print(since())  # > 2
train(times=2)  # the operations of the first one are counted, and its loss is not read
print(since())  # > finite

== several numbers, or several roots, are no loss
(weight * nan).backward(torch.ones(2))
torch.autograd.backward([weight[0] * nan, weight[1] * nan])
print(since())  # > unknown

== explicit gradients are no backward pass of training
torch.autograd.grad(weight.sum() * nan, weight)
print(since())  # > unknown

== checkpoint of activations that runs the engine again
from torch.utils.checkpoint import checkpoint
checkpoint(lambda x: (x * nan).sum(), weight, use_reentrant=True).backward()
print(since())  # > 2

== evaluation is no training
with zmon.activity("eval"):
    (weight.sum() * nan).backward()
print(since())  # > unknown

== loss with a class of its own, without data, or below a mode is not read
class Own(torch.Tensor):
    pass
(weight.sum() * nan).as_subclass(Own).backward()
meta = torch.ones(2, device="meta", requires_grad=True)
meta.sum().backward()
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode() as mode:
    torch.ones(2, requires_grad=True).sum().backward()
from torch.utils._python_dispatch import TorchDispatchMode
class Names(TorchDispatchMode):
    seen = set()
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.add(str(func))
        return func(*args, **(kwargs or {}))
loss = weight.sum() * nan
with Names():
    loss.backward()
print(since(), any("local_scalar" in name for name in Names.seen))  # > unknown False

== functions that torch transforms
from torch.func import grad, vmap
def work(x):
    (weight.sum() * nan + x.sum()).backward()
try:
    vmap(work)(torch.ones(3, 2))
except RuntimeError as error:
    print("vmap" in str(error) or "functorch" in str(error) or str(error)[:80])
print(since(), grad(lambda x: x.sum() * nan)(torch.ones(2)).isnan().all().item())
> True
> unknown True

== compiled model is compiled once
compiled = torch.compile(lambda factor: (weight * factor).sum(), backend="eager", fullgraph=True)
for factor in (1.0, nan):
    train()
    compiled(torch.tensor(factor)).backward()
    print(since(), torch._dynamo.utils.counters["stats"]["unique_graphs"])
> finite 1
> 4 1

== mode of the job's own functions does not see the reading
from torch.overrides import TorchFunctionMode
class Names(TorchFunctionMode):
    seen = set()
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.add(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))
loss = weight.sum() * nan
with Names():
    loss.backward()
print(since(), "item" in Names.seen)  # > 2 False

== error of the probe does not reach the job
timeline.ledger.losses.note = None
hook_of_loss._finite_on = None
dropped = timeline.ledger.dropped
hook_of_loss.complain = lambda line: None
weight.sum().backward()
print(timeline.ledger.dropped - dropped)  # > 1
"""


@pytest.mark.parametrize("case", cases(CASES, START))
def test_loss_of_a_backward_pass_is_read_without_an_effect_on_the_job(start_rank, case):
    case.check(start_rank)


class Place:
    """A place in pinned memory, which has the number once the device has done the copy."""

    def __init__(self, device, dtype):
        self.device = device
        self.dtype = dtype
        self.copied_at = None  # milliseconds of the device, at which the copy is done
        self.number = None

    def copy_(self, loss, non_blocking):
        assert non_blocking
        assert loss.is_detached
        self.copied_at = self.device.queued
        self.number = loss.number

    def item(self):
        assert self.copied_at <= self.device.done, "the number has not arrived"
        return self.number


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def losses(device):
    """Return the losses that are on their way from the fake device."""
    return DeviceLosses(
        lambda dtype: [Place(device, dtype) for _ in range(MAX_SENT)], device.event, lambda: not device.capturing
    )


def exchange(device, losses, step, number, dtype="float32"):
    """Compute a loss on the device in a millisecond; return the losses that have arrived, with their steps."""
    device.launch(1)
    loss = SimpleNamespace(dtype=dtype, detach=lambda: SimpleNamespace(number=number, is_detached=True))
    return [*losses.exchange(step, loss)]


def test_loss_of_a_device_arrives_in_a_later_step_and_nothing_waits(device, losses):
    assert exchange(device, losses, 1, 0.5) == []
    assert exchange(device, losses, 2, 0.4) == []
    device.done = 1
    assert exchange(device, losses, 3, 0.3) == [(1, 0.5)]
    device.catch_up()
    assert exchange(device, losses, 4, 0.2) == [(2, 0.4), (3, 0.3)]


def test_places_are_used_again_by_dtype(device, losses):
    for step in range(1000):
        for dtype in ("float32", "bfloat16"):
            exchange(device, losses, step, step, dtype)
            device.catch_up()
    assert device.num_events == 2 * MAX_SENT


def test_losses_beyond_the_last_place_are_left_out(device, losses):
    for step in range(100):
        assert exchange(device, losses, step, step) == []
    device.catch_up()
    assert exchange(device, losses, 100, 100) == [(step, step) for step in range(MAX_SENT)]


def test_device_is_not_asked_while_a_graph_is_captured(device, losses):
    exchange(device, losses, 1, 0.5)
    device.capturing = True
    assert exchange(device, losses, 2, 0.4) == []
    device.capturing = False
    device.catch_up()
    assert exchange(device, losses, 3, 0.3) == [(1, 0.5)]


def test_error_of_the_device_is_raised(device, losses):
    """The hook catches it, as any error of the probe."""
    device.broken = True
    with pytest.raises(RuntimeError, match="CUDA error"):
        exchange(device, losses, 1, 0.5)
