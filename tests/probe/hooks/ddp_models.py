"""Models, and ways to wrap and train them, for the scenarios of ddp_job."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

X = torch.ones(4, 20)


def net(buffers=False):
    """Return a small network; with `buffers` it has a layer whose buffers DDP broadcasts."""
    norms = [nn.BatchNorm1d(30)] if buffers else []
    return nn.Sequential(nn.Linear(20, 30), *norms, nn.ReLU(), nn.Linear(30, 10), nn.Linear(10, 1))


def train(module, steps=4, loss=lambda y: y.sum().backward(), x=X):
    """Run forward and backward passes; `loss` gets the output of the module, and runs the backward pass."""
    for _ in range(steps):
        loss(module(x))


def small(module, **options):
    """Return a module in DDP whose gradients are in several small buckets."""
    return DDP(module, bucket_cap_mb=0.001, **options)


class HalfUsed(nn.Module):
    """A model whose second half no forward pass uses."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = net(), net()

    def forward(self, x):
        return self.used(x)


class Checkpointed(nn.Module):
    """A model that computes its activations again in backward, in which it runs the engine again."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(20, 20) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=True)
        return x


class Sparse(nn.Module):
    """A model with a table whose gradients are sparse."""

    def __init__(self):
        super().__init__()
        self.table, self.top = nn.Embedding(50, 4, sparse=True), nn.Linear(4, 1)

    def forward(self, x):
        return self.top(self.table(x))


class TwoOutputs(nn.Module):
    """A model that returns a pair."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(20, 20), nn.Linear(20, 20)

    def forward(self, x):
        return self.first(x), self.second(x)


def fail(where):
    """Raise an error with this text."""
    raise ArithmeticError(where)


def error_of(loss):
    """Run a backward pass; return the text of the error that `fail` raises in it."""
    try:
        loss.backward()
    except ArithmeticError as error:
        return str(error)


class Failing(torch.autograd.Function):
    """A function that raises in its backward pass."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        fail("in backward")
