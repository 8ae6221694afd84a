"""A callback for Lightning that tells zmon what it cannot infer exactly.

zmon sees ranks, steps, phases and collectives without it. With it, samples and operations are declared and not inferred
or counted, loss and progress are in the metrics, and validation and saving are exact whatever writes the files:

    Trainer(..., callbacks=[ZmonCallback(samples=32)])
"""

from __future__ import annotations

from contextlib import ExitStack
from math import inf
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

import zmon


class ZmonCallback(Callback):
    """Declare the work of each step, loss and progress, and mark validation and saving."""

    def __init__(self, samples: int, flops_per_sample: float | None = None, dtype: str = "float32") -> None:
        self.samples, self.flops_per_sample, self.dtype = samples, flops_per_sample, dtype
        self.activity = ExitStack()

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        # 6 operations for each parameter and sample: 2 forward, 4 backward. Exact for dense layers only.
        self.flops_per_sample = self.flops_per_sample or 6 * sum(weight.numel() for weight in module.parameters())
        steps = trainer.estimated_stepping_batches  # infinite or -1: unknown
        self.steps = steps if 0 < steps < inf else None
        if self.steps:
            zmon.plan(steps=self.steps - trainer.global_step)  # for the time left; zmon counts from 1 in each launch

    def on_before_optimizer_step(self, trainer: Trainer, *_: Any) -> None:
        self.activity.close()
        samples = self.samples * trainer.accumulate_grad_batches
        zmon.work(samples=samples, flops=samples * self.flops_per_sample, dtype=self.dtype)
        if self.steps:
            zmon.report(progress=trainer.global_step / self.steps)

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, outputs: Any, *_: Any) -> None:
        zmon.report(loss=float(outputs["loss"]))

    def on_validation_start(self, trainer: Trainer, *_: Any) -> None:
        self.activity.close()
        if not trainer.sanity_checking:  # that is part of the start
            self.activity.enter_context(zmon.activity("eval"))

    def on_validation_end(self, *_: Any) -> None:
        self.activity.close()

    def on_save_checkpoint(self, *_: Any) -> None:
        self.activity.close()
        self.activity.enter_context(zmon.activity("checkpoint"))  # until the next batch, or the end of the training

    def on_train_batch_start(self, *_: Any) -> None:
        self.activity.close()

    def on_train_end(self, *_: Any) -> None:
        self.activity.close()
