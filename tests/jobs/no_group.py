"""Train in one process without a process group: SGD, then a dense and a sparse optimizer together, then AMP.

Usage: `python no_group.py OUT`.
"""

import sys

import torch
from tally import Tally
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def plain(tally: Tally) -> None:
    """Train with the usual loop."""
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(TensorDataset(torch.randn(40, 8), torch.randn(40, 1)), batch_size=8):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        tally.steps += 1
    print(f"plain loss {loss.item():.4f}")


def recommender(tally: Tally) -> None:
    """Train embeddings with sparse gradients and an optimizer of their own; each batch is one step of both."""
    bag, head = nn.EmbeddingBag(50, 8, sparse=True), nn.Linear(8, 1)
    sparse, dense = torch.optim.SparseAdam(bag.parameters()), torch.optim.SGD(head.parameters(), lr=0.01)
    for _ in range(6):
        loss = head(bag(torch.randint(50, (16, 3)))).square().mean()
        dense.zero_grad()
        sparse.zero_grad()
        loss.backward()
        dense.step()
        sparse.step()
        tally.steps += 1
    print(f"recommender loss {loss.item():.4f}")


def mixed_precision(tally: Tally) -> None:
    """Train with a gradient scaler, which skips the update of the third batch, whose loss is infinite."""
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024)
    for number in range(6):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.randn(16, 8)).float().square().mean()
        if number == 2:
            loss = loss * float("inf")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= before:  # the scale shrinks if an update was skipped
            tally.steps += 1
        else:
            print(f"batch {number} is left out")


def main() -> None:
    torch.manual_seed(0)
    tally = Tally()
    plain(tally)
    recommender(tally)
    mixed_precision(tally)
    tally.write(sys.argv[1])


if __name__ == "__main__":
    main()
