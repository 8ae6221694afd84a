"""Train with Ray Train. In the middle each worker evaluates, and rank 0 reports a checkpoint.

Usage: `python ray_train.py OUT`.
"""

import sys
import tempfile
from pathlib import Path

import ray
import torch
from counting import Count
from ray.train import Checkpoint, RunConfig, ScalingConfig, get_context, report
from ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model
from rows import BATCH, MIDDLE, STEPS, evaluate, network, table
from torch import nn
from torch.utils.data import DataLoader


def train(config: dict[str, str]) -> None:
    """Train as one worker. `config["out"]` is the folder of the counts."""
    count = Count(config["out"])
    count.rank = get_context().get_world_rank()
    model = prepare_model(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in prepare_data_loader(DataLoader(table(STEPS * BATCH * 2), BATCH)):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        count.steps += 1
        if count.steps == MIDDLE:
            loss = evaluate(model)
            count.evaluations += 1
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = None
                if count.rank == 0:
                    torch.save(model.module.state_dict(), Path(folder, "model.pt"))
                    checkpoint = Checkpoint.from_directory(folder)
                    count.checkpoints += 1
                report({"loss": loss}, checkpoint=checkpoint)
    count.write()


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20)
    TorchTrainer(
        train,
        train_loop_config={"out": sys.argv[1]},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=sys.argv[1], name="ray"),
    ).fit()
