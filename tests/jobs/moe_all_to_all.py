"""Train a mixture of experts by hand: one expert per rank; tokens are sent there with uneven splits, and back.

Usage: `torchrun --nproc-per-node 2 moe_all_to_all.py OUT`.
"""

import sys

import torch
import torch.distributed as dist
from tally import Tally, size
from torch import nn

STEPS = 6
TOKENS, WIDTH = 32, 16
tally: Tally


class Exchange(torch.autograd.Function):
    """Send tokens to their experts and, in the backward pass, gradients back to the tokens' ranks."""

    @staticmethod
    def forward(ctx, tokens, output_splits, input_splits):
        ctx.splits = input_splits, output_splits
        output = tokens.new_empty(sum(output_splits), tokens.shape[1])
        dist.all_to_all_single(output, tokens.contiguous(), output_splits, input_splits)
        tally.op("all_to_all", 4 * WIDTH * sum(input_splits), 4 * WIDTH * sum(output_splits))
        return output

    @staticmethod
    def backward(ctx, gradient):
        output_splits, input_splits = ctx.splits
        output = gradient.new_empty(sum(output_splits), gradient.shape[1])
        work = dist.all_to_all_single(output, gradient.contiguous(), output_splits, input_splits, async_op=True)
        work.wait()
        tally.op("all_to_all", 4 * WIDTH * sum(input_splits), 4 * WIDTH * sum(output_splits))
        return output, None, None


class MixtureOfExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, dist.get_world_size())
        self.expert = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        weight, expert = self.router(tokens).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        sent = torch.bincount(expert, minlength=dist.get_world_size())
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        tally.op("all_to_all", 8 * len(sent), 8 * len(sent))
        sent, received = sent.tolist(), received.tolist()
        computed = self.expert(Exchange.apply(tokens[order], received, sent))
        returned = Exchange.apply(computed, sent, received)
        return torch.empty_like(returned).index_copy(0, order, returned) * weight[:, None]


def main() -> None:
    global tally
    dist.init_process_group("gloo")
    tally = Tally(dist.get_rank(), dist.get_world_size())
    torch.manual_seed(tally.rank)
    model = MixtureOfExperts()
    for parameter in model.router.parameters():  # experts differ, the router is the same on all ranks
        dist.broadcast(parameter.data, src=0)
        tally.broadcast(size(parameter))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    for _ in range(STEPS):
        tokens = torch.randn(TOKENS, WIDTH, requires_grad=True)
        loss = (model(tokens) - tokens.detach().roll(1, dims=1)).square().mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        works = [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.router.parameters()]
        for work in works:
            work.wait()
        for parameter in model.router.parameters():
            parameter.grad /= tally.world_size
            tally.op("all_reduce", size(parameter), size(parameter))
        optimizer.step()

        tally.steps += 1
        if tally.rank == 0:
            print(f"step {tally.steps} loss {loss.item():.4f}", flush=True)

    dist.destroy_process_group()
    tally.write(sys.argv[1])


if __name__ == "__main__":
    main()
