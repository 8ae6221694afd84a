"""Scenarios of ddp_job with a settled module, until something changes.

A module is settled if it is the only one and its passes are alike. Then the C edge alone measures its passes.
"""

import copy
import io
import os
import pickle
import threading
import time
import weakref
from pathlib import Path

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel as DDP

from tests.probe.hooks.ddp_models import Checkpointed, HalfUsed, X, error_of, fail, net, small, train
from zmon import probe
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.probe import edge
from zmon.probe.hooks import simple_reducer
from zmon.probe.hooks.collectives import group_number
from zmon.probe.hooks.reducer import ALL_REDUCE

RANK = int(os.environ["RANK"])


def wait_for_peer(module):
    """Let rank 1 begin its backward pass 0.3 s after rank 0 waits in its own."""
    y = module(X)
    if RANK == 1:
        last = probe.current.sequence(ALL_REDUCE, group_number(module.process_group))  # rank 0 may still be in it
        watched = BoxReader(Path(os.environ["ZMON_BOX_DIR"]) / "job/0/rank-0.box")
        deadline = time.monotonic() + 10
        while (now := watched.now()).sequence <= last and time.monotonic() < deadline:
            time.sleep(0.005)
        watched.close()
        time.sleep(0.3)
    y.sum().backward()
    return {"peer": [now.op, now.num_bytes]} if RANK == 1 else {}


def trained(steps=4, **options):
    """Return a module after some passes. The C edge measures the passes of the only module from the fourth pass on."""
    module = small(net(), **options)
    train(module, steps)
    return module


def settled(**options):
    """Train a module that stays settled; note whether the C edge measured it."""
    module = trained(8, **options)
    noted = {"offered": simple_reducer._offered is not None, "edge": edge.CHOSEN.name}
    del module  # the C edge measures it only while it lives
    return noted


def settled_static_graph():
    """Only the first pass of a static graph reduces at its end."""
    return settled(static_graph=True)


def settled_static_graph_with_unused():
    """No pass uses the parameter that has the hook of the C edge."""
    module = small(HalfUsed(), static_graph=True)
    train(module, 8)
    with module.no_sync():
        train(module, 2)
    train(module, 2)


def settled_checkpointed():
    """Each backward pass runs inner passes, for the checkpoints of activations."""
    train(small(Checkpointed()), 6, x=X.clone().requires_grad_())


def settled_hook():
    """A hook that compresses gradients is registered late."""
    module = trained()
    module.register_comm_hook(None, fp16_compress_hook)
    train(module)
    return {"offered": simple_reducer._offered is not None}


def settled_copied():
    """A copy, and a module that is pickled and unpickled, train beside the settled module."""
    module = trained()
    other = copy.deepcopy(module)  # with the hook on its parameter, which must not count for the other module
    train(other)
    train(module)
    torch.save(module.state_dict(), io.BytesIO())
    train(pickle.loads(pickle.dumps(module)))


def settled_released():
    """The hook on a parameter refers to the process group, and goes with the module."""
    inner = net()
    module = small(inner)
    train(module)
    last = list(inner.parameters())[-1]
    during = len(last._post_accumulate_grad_hooks or ())
    del module
    return {
        "hooks": [during, len(last._post_accumulate_grad_hooks or ())],
        "weak_references": weakref.getweakrefcount(last),  # torch.utils.swap_tensors accepts none
        "edge": edge.CHOSEN.name,
    }


def settled_raising():
    """A backward pass of the settled module raises."""
    module = trained()
    y = module(X.clone().requires_grad_())
    y.register_hook(lambda _: fail("in backward"))
    return {"errors": [error_of(y.sum())], "in_op": probe.current._in_op}


def settled_reentrant():
    """Checkpoints run the engine again, in one bucket: its hook fires in an inner pass."""
    train(DDP(Checkpointed()), 6, x=X.clone().requires_grad_())


def error_of_callback(module):
    """Run a backward pass in which a callback of the job raises after the gradients are computed."""
    y = module(X)
    queue = torch.autograd.Variable._execution_engine.queue_callback
    y.register_hook(lambda _: queue(lambda: fail("in a callback")))
    return error_of(y.sum())


def settled_callback():
    """A callback at the end of a pass of the settled module raises."""
    return {"errors": [error_of_callback(trained())], "in_op": probe.current._in_op}


def settled_threads():
    """Another thread is in a backward pass of its own meanwhile."""
    module = trained()
    inside, may_end = threading.Event(), threading.Event()
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda _: (inside.set(), may_end.wait(10), None)[2])
    other = threading.Thread(target=lambda: y.sum().backward())
    other.start()
    inside.wait(10)
    train(module)
    may_end.set()
    other.join()


def settled_groups():
    """The group of the module is one more than the live words of a box have room for."""
    groups = [torch.distributed.new_group([0, 1]) for _ in range(layout.MAX_GROUPS)]
    module = small(net(), process_group=groups[-1])
    train(module, 6)


def settled_unseen():
    """Between passes the group issues collectives that zmon does not see: it must not count them as reductions."""
    module = trained()
    for _ in range(4):
        module.process_group.allreduce([torch.ones(1)]).wait()
        train(module, 1)
    with module.no_sync():
        module.process_group.allreduce([torch.ones(1)]).wait()
        train(module, 1)
    train(module, 2)
    return {"unseen": 5}
