"""Tests of the training step. It equals plain autograd, and training lowers the normalized entropy."""

import pytest
import torch
import torch.nn.functional as F

from trainer.loader import Extent, Loader
from trainer.loop import steps
from trainer.quality import RunningQuality
from trainer.scale.presets import demo


def batches(run, steps):
    """Return a loader of this many steps of a run."""
    return Loader(run.source, Extent.of_steps(steps, run.config.train.global_batch), 0, 1, depth=0)


@pytest.mark.parametrize("kind", ["table_wise", "row_wise", "data_parallel"])
def test_training_step_equals_plain_autograd(small_run, kind) -> None:
    trained, plain = (small_run({"train": {"dtype": "float64"}, "sharding": {"kind": kind}}) for _ in range(2))
    optimizer = plain.config.optimizer
    batch = trained.source.batch(0, 0, 32)
    tables = [plain.state()[f"table.{k}.weight"].parts[0].tensor.clone().requires_grad_() for k in range(5)]
    ids = batch.ids.split(batch.lengths.sum(dim=1).tolist())
    pooled = [
        F.embedding_bag(ids[k], tables[k], batch.lengths[k].cumsum(0) - batch.lengths[k], mode="sum") for k in range(5)
    ]
    model = plain.trainer.model
    logits = model.top(model.bottom(batch.dense.double()), torch.stack(pooled, dim=1))
    loss = F.binary_cross_entropy_with_logits(logits, batch.labels.double())
    loss.backward()
    torch.optim.Adagrad(model.parameters(), lr=optimizer.dense_learning_rate, eps=1e-8).step()

    (result,) = steps(trained.trainer, batches(trained, 1))

    sums = result.sums.numbers()
    assert sums.log_loss / 32 == pytest.approx(loss.item(), rel=1e-12)
    assert sums.labels == batch.labels.sum()
    assert sums.predictions == pytest.approx(float(logits.detach().sigmoid().sum()), rel=1e-12)
    for parameter, expected in zip(trained.trainer.model.parameters(), model.parameters(), strict=True):
        assert torch.allclose(parameter, expected, rtol=1e-12, atol=1e-14)
    for k, table in enumerate(tables):
        state = table.grad.square().mean(dim=1)
        change = optimizer.embedding_learning_rate * table.grad / (state.sqrt() + 1e-8)[:, None]
        tensors = trained.state()
        assert torch.allclose(tensors[f"table.{k}.rowwise_adagrad"].parts[0].tensor, state, rtol=1e-10, atol=0)
        weight = tensors[f"table.{k}.weight"].parts[0].tensor
        assert torch.allclose(weight, table.detach() - change, rtol=1e-10, atol=1e-14)


def test_training_lowers_normalized_entropy(open_run) -> None:
    trained, quality, entropies = open_run(demo()), RunningQuality(), []
    for result in steps(trained.trainer, batches(trained, 150)):
        sums = result.sums.numbers()
        quality.step(result.samples, sums.log_loss, sums.labels, sums.predictions)
        entropies.append(quality.windowed().normalized_entropy)
    assert entropies[0] > 1
    assert entropies[-1] < 0.9  # of the last 50 steps


def test_products_in_bfloat16_are_close_and_repeat_bit_for_bit(small_run) -> None:
    full, half, again = (small_run({"train": {"cpu_autocast": enabled}}) for enabled in (False, True, True))
    for run in (full, half, again):
        for _ in steps(run.trainer, batches(run, 20)):
            pass
    exact, rounded, repeated = (run.trainer.flat.parameter.detach() for run in (full, half, again))
    assert rounded.dtype == torch.float32
    assert torch.equal(rounded, repeated)
    assert not torch.equal(rounded, exact)
    assert torch.allclose(rounded, exact, atol=0.02)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU can be made to wait")
def test_step_does_not_wait_for_the_gpu(small_run) -> None:
    trained = small_run()
    results = steps(trained.trainer, batches(trained, 6))
    for _ in range(3):  # the first steps allocate memory
        next(results)
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = next(results)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert result.sums.numbers().log_loss > 0
