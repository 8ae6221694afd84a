"""Train with Lightning, which validates and saves in the middle.

Usage: `python lightning_fit.py OUT [--example]`, or under torchrun. Without torchrun, Lightning starts the other rank.
`--example`: with the callback of `examples/`.
"""

import sys
from pathlib import Path

import lightning
import torch
from counting import Count
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from rows import BATCH, MIDDLE, STEPS, network, table
from torch import nn
from torch.utils.data import DataLoader

EXAMPLE = "--example" in sys.argv


class Module(lightning.LightningModule):
    """The network of `rows.py` with its loss and optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Counting(Callback):
    """Count the updates and evaluations of this rank."""

    def __init__(self, count: Count) -> None:
        self.count = count

    def on_train_start(self, trainer: lightning.Trainer, _: object) -> None:
        self.count.rank = trainer.global_rank

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: object) -> None:
        self.count.steps = trainer.global_step

    def on_validation_end(self, trainer: lightning.Trainer, _: object) -> None:
        self.count.evaluations += not trainer.sanity_checking


class Saving(ModelCheckpoint):
    """Save as Lightning does, and count the checkpoints of this rank."""

    def _save_checkpoint(self, trainer: lightning.Trainer, filepath: str) -> None:
        super()._save_checkpoint(trainer, filepath)
        # Rank 0 saves, and the other rank waits. The callback of the example marks a checkpoint on both.
        count.checkpoints += trainer.is_global_zero or EXAMPLE


if __name__ == "__main__":
    count = Count(sys.argv[1])
    callbacks = [Counting(count), Saving(count.out / "saved", every_n_train_steps=MIDDLE, save_top_k=-1)]
    module = Module()
    if EXAMPLE:
        sys.path.append(str(Path(__file__).parents[3] / "examples"))
        from lightning_callback import ZmonCallback

        callbacks.append(ZmonCallback(samples=BATCH))
        samples = BATCH * STEPS
        parameters = sum(weight.numel() for weight in module.parameters())
        count.declared = {"samples": samples, "flops": 6 * parameters * samples, "report": ["loss", "progress"]}
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_steps=STEPS, val_check_interval=MIDDLE, callbacks=callbacks,
        default_root_dir=count.out, logger=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    batches = DataLoader(table(STEPS * BATCH * 2), BATCH)
    trainer.fit(module, batches, DataLoader(table(16 * BATCH), BATCH))
