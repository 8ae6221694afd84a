"""The step against plain autograd, and does it learn."""

import pytest
import torch
import torch.nn.functional as F

from trainer.config import demo
from trainer.progress import Progress
from trainer.train import Trainer


def test_a_step_equals_plain_autograd(small_config, alone) -> None:
    config = small_config({"train": {"dtype": "float64"}})
    trainer, reference = Trainer(config, alone), Trainer(config, alone)
    batch = trainer.source.batch(0, 0, 32)
    tables = list(reference.tables.weight.split(list(config.embedding.rows)))
    tables = [table.clone().requires_grad_() for table in tables]
    ids = batch.ids.split(batch.lengths.sum(dim=1).tolist())
    pooled = [
        F.embedding_bag(ids[k], tables[k], batch.lengths[k].cumsum(0) - batch.lengths[k], mode="sum") for k in range(5)
    ]
    logits = reference.dense(batch.dense.double(), torch.stack(pooled, dim=1))
    loss = F.binary_cross_entropy_with_logits(logits, batch.labels.double())
    loss.backward()
    reference.optimizer.step()

    log_loss, mean_label = trainer.step(0)

    assert log_loss == pytest.approx(loss.item(), rel=1e-12)
    assert mean_label == batch.labels.mean()
    for mine, plain in zip(trainer.dense.parameters(), reference.dense.parameters(), strict=True):
        assert torch.allclose(mine, plain, rtol=1e-12, atol=1e-14)
    gradient = torch.cat([table.grad for table in tables])
    accumulator = gradient.square().mean(dim=1)
    step = config.embedding.learning_rate * gradient / (accumulator.sqrt() + 1e-8)[:, None]
    assert torch.allclose(trainer.tables.accumulator, accumulator, rtol=1e-10, atol=0)
    assert torch.allclose(trainer.tables.weight, reference.tables.weight - step, rtol=1e-10, atol=1e-14)


def test_normalized_entropy_falls_below_one(alone) -> None:
    trainer = Trainer(demo(), alone)
    progress = Progress(50, 512, say=lambda line: None)
    entropies = [progress.step(*trainer.step(number)) for number in range(150)]
    assert entropies[0] > 1
    assert entropies[-1] < 0.9  # of the last 50 steps; 0.86 was seen


def test_a_run_tells_its_progress(small_config, alone, capsys) -> None:
    Trainer(small_config({"train": {"steps": 4, "progress_every": 2}}), alone).run()
    lines = capsys.readouterr().out.splitlines()
    assert [line[:6] for line in lines] == ["step 2", "step 4", "finish"]
    assert lines[-1].startswith("finished 4 steps in ")
