"""A DDP job in which rank 0 evaluates and saves while the others wait, and all ranks save together at the end.

Usage: `torchrun --nproc-per-node 2 eval_checkpoint.py OUT`.
"""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from tally import Tally, ddp_construction, ddp_rebuild, size
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEPS = 9
EVALUATE_EVERY = 3  # steps
PAUSE_SECONDS = 0.3  # of an evaluation or a checkpoint: the test reads the activity every 5 ms meanwhile


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, tally: Tally) -> float:
    model.eval()
    losses, begin = [], None
    for x, y in loader:
        losses.append(nn.functional.mse_loss(model(x), y))
        if begin is None:
            begin = time.monotonic()  # the first forward is what shows the evaluation
        time.sleep(PAUSE_SECONDS / len(loader))  # as if the data set were larger
    tally.activity("eval", begin)
    model.train()
    return torch.stack(losses).mean().item()


def save(model: nn.Module, optimizer: torch.optim.Optimizer, path: Path, tally: Tally) -> None:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    begin = time.monotonic()
    time.sleep(PAUSE_SECONDS)  # upload it
    tally.activity("checkpoint", begin)


def save_together(model: nn.Module, path: Path, tally: Tally) -> None:
    """Save with torch's distributed checkpoint; count its collectives (checkpoint/state_dict_saver.py).

    The sizes of the pickled plans are details of torch, so they are not counted.
    """
    dcp.save({"model": model.state_dict()}, checkpoint_id=path)
    begin = time.monotonic()
    time.sleep(PAUSE_SECONDS)
    tally.activity("checkpoint", begin)
    tally.op("all_gather", 2 * 8, 2 * 8 * tally.world_size, times=2)  # gather_object, twice: sizes,
    tally.op("gather", None, None, times=2)  # then pickles
    tally.op("broadcast", None, None, times=1)  # scatter_object_list: the largest size,
    tally.op("scatter", None, None, times=2)  # then pickles and sizes
    tally.op("broadcast", None, None, times=2)  # broadcast_object_list: sizes, pickles


def main() -> None:
    out = Path(sys.argv[1])
    dist.init_process_group("gloo")
    tally = Tally(dist.get_rank(), dist.get_world_size())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
    ddp_construction(tally, model)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    held_out = DataLoader(TensorDataset(torch.randn(24, 16), torch.randn(24, 1)), batch_size=8)

    torch.manual_seed(tally.rank)
    begin = None
    for step in range(1, STEPS + 1):
        x, y = torch.randn(8, 16), torch.randn(8, 1)
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), y).backward()
        optimizer.step()
        if begin is None:
            begin = time.monotonic()
        tally.steps += 1
        tally.op("all_reduce", size(*model.parameters()), size(*model.parameters()))
        if step % EVALUATE_EVERY == 0:
            if tally.rank == 0:
                tally.activity("train", begin)
                print(f"step {step} evaluation {evaluate(ddp.module, held_out, tally):.4f}", flush=True)
                save(ddp.module, optimizer, out / "checkpoint.pt", tally)
            dist.barrier()  # the others wait
            tally.op("barrier")
            if tally.rank != 0:
                tally.activity("train", begin)
            begin = None
    ddp_rebuild(tally, model)
    save_together(ddp.module, out / "checkpoint", tally)

    dist.destroy_process_group()
    tally.write(sys.argv[1])


if __name__ == "__main__":
    main()
