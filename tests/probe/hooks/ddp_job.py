"""The script of two ranks that train with DDP in many ways; test_ddp runs it.

For each scenario it notes what torch's flight recorder recorded. The flight recorder has all collectives of the group,
also those that DDP issues in C++.
"""

import copy
import json
import math
import os
import pickle
import sys
import weakref
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel as DDP

import zmon
from tests.probe.hooks import ddp_settled
from tests.probe.hooks.ddp_models import (
    Checkpointed,
    Failing,
    HalfUsed,
    Sparse,
    TwoOutputs,
    X,
    error_of,
    fail,
    net,
    small,
    train,
)
from zmon import probe
from zmon.probe.hooks import ddp, reducer

RANK = int(os.environ["RANK"])
OUT = Path(sys.argv[0]).parent
# Bytes of a number, by the name that the flight recorder has for its type.
SIZES = {"Float": 4, "Half": 2, "Int": 4, "Long": 8, "Double": 8, "Byte": 1}
results = {}  # by scenario: what the flight recorder recorded, and what the scenario itself returns
COMPILED = []  # the models of the scenario `compiling`, which `compiled` trains as well
PICKLED = b""  # a DDP module


def recorded_collectives():
    """Return all entries of the flight recorder."""
    trace = json.loads(torch._C._distributed_c10d._dump_fr_trace_json(True, False))
    return trace.get("entries", [])


def scenario(name, work):
    """Run a function as a step, and store the collectives that the flight recorder recorded during the step."""
    before, dropped = len(recorded_collectives()), probe.current.ledger.dropped
    with zmon.step():
        extra = work() or {}
    recorded = {}
    for entry in recorded_collectives()[before:]:
        op = entry["profiling_name"].removeprefix("gloo:").removeprefix("sparse_")
        num_bytes = sum(math.prod(size) * SIZES[kind] for size, kind in zip(
            entry["input_sizes"], entry["input_dtypes"], strict=True))  # fmt: skip
        count, total = recorded.get(op, (0, 0))
        recorded[op] = [count + 1, total + num_bytes * (2 if op == "all_gather" else 1)]  # received from two ranks
    results[name] = {"recorded": recorded, "dropped": probe.current.ledger.dropped - dropped, **extra}
    assert not ddp._groups  # no backward pass is left open


def accumulated(module):
    """Train with gradient accumulation: two passes without a reduction, then one with it."""
    for _ in range(3):
        with module.no_sync():
            train(module, 2)
        train(module, 1)


def built_in_hook():
    """Train with a hook of torch in C++ that compresses gradients."""
    module = small(net())
    module._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    train(module)


def own_hook(**options):
    """Train with a hook in Python that compresses gradients."""
    module = small(net(), **options)
    module.register_comm_hook(None, fp16_compress_hook)
    train(module)


def gan():
    """Train a critic, and a generator through the critic."""
    generator, critic = small(nn.Linear(20, 20)), small(net())
    for _ in range(3):
        critic(generator(X).detach()).sum().backward()
        critic(generator(X)).sum().backward()


def retained_graph():
    """Run two backward passes through one graph."""

    def twice(y):
        with module.no_sync():
            y.sum().backward(retain_graph=True)
        y.sum().backward()

    module = small(net())
    train(module, loss=twice)


def several_roots():
    """Run backward passes that begin at several tensors, some of which are none of the module."""
    leaf = torch.ones(1, requires_grad=True)
    train(small(net()), loss=lambda y: torch.autograd.backward([leaf, leaf * 2, y.sum(), y.mean()]))


def explicit_gradients(module):
    """Compute the gradients of the input only, and then train."""
    y = module(X.requires_grad_())
    torch.autograd.grad(y.sum(), X)
    X.requires_grad_(False)
    train(module)


def second_derivatives():
    """Compute second derivatives of a module without DDP, beside one with it: DDP does not support create_graph."""
    small(net())
    y = net()(X.requires_grad_())
    (gradient,) = torch.autograd.grad(y.pow(2).sum(), X, create_graph=True)
    gradient.sum().backward()
    X.requires_grad_(False)


def joined(module):
    """Train two steps more on rank 1 than on rank 0."""
    with module.join():
        train(module, 3 + 2 * RANK)


def in_two_parts():
    """Run a backward pass for each of two outputs."""

    def parts(outputs):
        for output in outputs:
            output.sum().backward()

    train(small(TwoOutputs()), loss=parts)


def unreadable_root():
    """A root that zmon cannot read costs the counts of its pass, and those of no later one."""

    class Root:
        grad_fn = property(fail)

    module = small(net())  # noqa: F841 - while it lives, passes are measured
    ddp.wrap_engine(lambda roots: None)([Root()])


def raising():
    """Run a backward pass that raises in a function, and one that raises in a callback."""
    first, second = small(net()), small(net())
    y = first(Failing.apply(X.clone().requires_grad_()))
    errors = [error_of(y.sum()), ddp_settled.error_of_callback(second)]
    return {"errors": errors, "in_op": probe.current._in_op}


def copied():
    """Train a module and a copy of it, and drop both."""
    module = small(net())
    train(module)
    other = copy.deepcopy(module)
    train(other)
    gone = [weakref.ref(module), weakref.ref(other)]
    del module, other
    return {"still_alive": [ref() is not None for ref in gone], "reducers": len(reducer.reducers)}


def compiling():
    """Compile in the middle of a step: what the rank did in the step before belongs to no step."""
    COMPILED.append(torch.compile(DDP(net()), backend="aot_eager"))
    COMPILED.append(DDP(torch.compile(net(), backend="aot_eager")))
    for model in COMPILED:
        train(model)


def compiled():
    """Train the models that were compiled before."""
    for model in COMPILED:
        train(model)
    return {"graph_breaks": sum(torch._dynamo.utils.counters["graph_break"].values())}


ONE_LINE = {
    "plain": lambda: train(small(net())),
    "buffers": lambda: train(small(net(buffers=True))),
    "accumulated": lambda: accumulated(small(net())),
    "settled_accumulated": lambda: accumulated(ddp_settled.trained()),
    "two_types": lambda: train(small(nn.Sequential(net(), nn.Linear(1, 1)).to(torch.float64)), x=X.double()),
    "find_unused": lambda: train(small(HalfUsed(), find_unused_parameters=True)),
    "static_graph": lambda: train(small(net(), static_graph=True), 5),
    "bucket_view": lambda: train(small(net(), gradient_as_bucket_view=True)),
    "sub_group": lambda: train(small(net(), process_group=dist.new_group([0, 1]))),
    "checkpointed": lambda: train(small(Checkpointed()), x=X.clone().requires_grad_()),
    "sparse": lambda: train(small(Sparse()), x=torch.tensor([1, 2 + RANK])),
    "explicit_gradients": lambda: explicit_gradients(small(net())),
    "settled_explicit_gradients": lambda: explicit_gradients(ddp_settled.trained()),
    "late_peer": lambda: ddp_settled.wait_for_peer(small(net())),
    "settled_late_peer": lambda: ddp_settled.wait_for_peer(ddp_settled.trained()),
    "unpickled": lambda: train(pickle.loads(PICKLED)),
    "own_hook": lambda: own_hook(find_unused_parameters=True),
    "own_hook_static_graph": lambda: own_hook(static_graph=True),
    "joined": lambda: joined(small(net(buffers=True), find_unused_parameters=False)),
    "joined_with_unused": lambda: joined(small(net(), find_unused_parameters=True)),
    "settled_joined": lambda: joined(ddp_settled.trained()),
}


def main():
    """Run the scenarios of the variable SCENARIOS, and write their results."""
    global PICKLED
    torch.set_num_threads(1)
    assert zmon.attach()
    ddp.install()
    dist.init_process_group("gloo", init_method=f"file://{OUT}/store", rank=RANK, world_size=2)
    PICKLED = pickle.dumps(small(net()))
    for name in os.environ["SCENARIOS"].split(","):
        scenario(name, ONE_LINE.get(name) or globals().get(name) or getattr(ddp_settled, name))
        dist.barrier()
    dist.destroy_process_group()
    (OUT / f"noted-{RANK}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
