"""Train with FSDP2: sharded parameters, gathered for each layer's forward and backward pass, and clipped gradients.

Usage: `torchrun --nproc-per-node 2 fsdp2.py OUT`.
"""

import sys

import torch
import torch.distributed as dist
from tally import Tally, size
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS = 5


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, 100)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def main() -> None:
    dist.init_process_group("gloo")
    tally = Tally(dist.get_rank(), dist.get_world_size())
    mesh = init_device_mesh("cpu", (tally.world_size,))
    torch.manual_seed(0)
    model = Model()
    blocks = [size(*layer.parameters()) for layer in model.layers]
    root = size(*model.embedding.parameters(), *model.head.parameters())
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    torch.manual_seed(tally.rank)
    for _ in range(STEPS):
        tokens = torch.randint(100, (4, 16))
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

        tally.steps += 1
        for gathered in (*blocks, *blocks, root):  # the root stays gathered between forward and backward
            tally.op("all_gather", gathered // tally.world_size, gathered)
        for reduced in (*blocks, root):
            tally.op("reduce_scatter", reduced, reduced // tally.world_size)
        norm = norm.full_tensor()
        num_norms = len(list(model.parameters()))  # one norm for each, summed over the ranks
        tally.op("all_reduce", 4 * num_norms, 4 * num_norms)
        if tally.rank == 0:
            print(f"step {tally.steps} norm {norm.item():.4f}", flush=True)

    dist.destroy_process_group()
    tally.write(sys.argv[1])


if __name__ == "__main__":
    main()
