"""Tests of the callback for Lightning, with a stand-in for Lightning: the progress of a job."""

import importlib.util
import sys
from math import inf
from types import ModuleType, SimpleNamespace

import pytest
import torch

import zmon
from tests.places import REPOSITORY


@pytest.fixture
def callback(monkeypatch):
    """The callback of the example, imported with a stand-in for Lightning."""
    lightning = ModuleType("lightning.pytorch")
    lightning.Callback = lightning.LightningModule = lightning.Trainer = object
    monkeypatch.setitem(sys.modules, "lightning", ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", lightning)
    spec = importlib.util.spec_from_file_location("lightning_callback", REPOSITORY / "examples/lightning_callback.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ZmonCallback(samples=32)


@pytest.mark.parametrize(
    ("steps", "max_steps", "expected"),
    [
        pytest.param(200, 200, {"progress": 0.25}, id="steps given"),
        pytest.param(200, -1, {"progress": 0.25}, id="epochs given"),
        pytest.param(inf, -1, {}, id="without an end"),
        pytest.param(-1, -1, {}, id="epochs of unknown length"),
    ],
)
def test_progress_is_reported_if_the_number_of_steps_is_known(callback, monkeypatch, steps, max_steps, expected):
    planned, reported = {}, {}
    monkeypatch.setattr(zmon, "plan", planned.update)
    monkeypatch.setattr(zmon, "report", reported.update)
    trainer = SimpleNamespace(
        estimated_stepping_batches=steps, max_steps=max_steps, global_step=0, accumulate_grad_batches=1
    )
    callback.on_train_start(trainer, torch.nn.Linear(2, 2))
    trainer.global_step = 50
    callback.on_before_optimizer_step(trainer)
    assert reported == expected
    assert planned == ({"steps": 200} if expected else {})
