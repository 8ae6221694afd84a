"""The bundled trainer, which marks its steps and phases itself, with batches that were generated before."""

from __future__ import annotations

import os

import torch

from bench.dlrm import RepeatingSource, Shape
from bench.jobs.training import Fill, Training
from trainer.loader import Extent, Loader
from trainer.loop import steps
from trainer.scale.planning import plan
from trainer.train import Trainer
from trainer.world import world_from

_SHAPE = Shape(pooling=4, tables=8, rows=10_000, dim=16, global_batch=256, bottom=(64,), top=(64,))


def make(fill: Fill, place: torch.device) -> Training:
    """Create the trainer and its loader."""
    world = world_from(os.environ)
    config = _SHAPE.config()
    source = RepeatingSource(_SHAPE)
    source.generate(world.rank, world.size)
    trainer = Trainer(config, world, plan(config, world).tables)
    batches = Loader(source, Extent.of_steps(None, _SHAPE.global_batch), world.rank, world.size, config.loader.depth)
    results = steps(trainer, batches)

    def step(pause: float) -> None:
        next(results)
        fill(pause)

    return Training(step, trainer.model)
