"""Tests of the benchmark of asynchronous training: its counts, its table, and a small job of each kind."""

import time

import pytest
import torch

from bench.asynchronous import report
from bench.asynchronous.job import configuration, run
from bench.asynchronous.readers import Slowed
from bench.asynchronous.report import ASYNCHRONOUS, SYNCHRONOUS, Run
from bench.asynchronous.worker import Averaging, Staleness
from bench.ranks import run_ranks

CONFIG = configuration(seed=1, steps=6, held_out=2)


def test_staleness_is_the_number_of_updates_by_others_since_the_look_up():
    updates = torch.zeros(5, dtype=torch.int32)
    mine, other = Staleness(updates), Staleness(updates)
    mine.read(torch.tensor([0, 1, 1, 2]))
    for _ in range(3):
        other.read(torch.tensor([1, 3]))
        other.update(torch.tensor([1, 3]))
    mine.update(torch.tensor([0, 1, 2]))
    assert mine.counts[:5].tolist() == [2, 0, 0, 1, 0]
    assert other.counts[:2].tolist() == [6, 0]
    assert updates.tolist() == [1, 4, 1, 3, 0]


def test_averaging_moves_worker_and_center_towards_each_other():
    weights, center = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
    with Averaging(weights, center, share=0.25):
        pass
    assert weights.tolist() == [0.75, 2.5]
    assert center.tolist() == [0.25, 3.5]


def test_slow_batches_take_twice_the_time_that_was_computed():
    batches = Slowed(iter([1, 2]))
    next(batches)
    begin = time.thread_time()
    while time.thread_time() - begin < 0.05:
        pass
    before = time.perf_counter()
    assert next(batches) == 2
    assert time.perf_counter() - before >= 0.05


def test_bytes_are_those_between_machines():
    ids = 16.0
    dense = 4 * sum(parameter.numel() for parameter in report.dense_model(CONFIG).parameters())
    vectors = 4 * (ids + 8 + 2 * 8 * 16)  # ids, lengths, and vectors and gradients of 8 tables of 16 columns
    assert report.synchronous_bytes(CONFIG, 1, ids) == 0
    assert report.synchronous_bytes(CONFIG, 4, ids) == pytest.approx(vectors * 3 / 4 + 6 * dense / 2048)
    assert report.asynchronous_bytes(CONFIG, ids, 0.001) == pytest.approx(vectors + 0.002 * dense)


def test_line_compares_runs_of_the_same_seed():
    synchronous = [Run(100.0, 0.70, 0.80, 500.0), Run(200.0, 0.60, 0.82, 500.0)]
    other = [Run(150.0, 0.707, 0.79, 900.0, (5, 4, 0, 1)), Run(300.0, 0.606, 0.81, 900.0, (5, 4, 0, 1))]
    cells = dict(zip(report.HEADS, report.cells(ASYNCHRONOUS, 2, "even", other, synchronous), strict=True))
    assert (cells["÷ synchronous"], cells["± of ratio"]) == ("1.50", "0.00")
    assert (cells["NE difference"], cells["± of NE"]) == ("+1.000 %", "0.000 %")
    assert (cells["missed updates"], cells["99 %"]) == ("0", "3")
    same = dict(zip(report.HEADS, report.cells(SYNCHRONOUS, 2, "even", synchronous, synchronous), strict=True))
    assert same["÷ synchronous"] == same["missed updates"] == ""


@pytest.mark.e2e
@pytest.mark.slow  # the other test starts the same processes
def test_one_worker_trains_like_one_rank():
    outcome = run(CONFIG, workers=1, has_slow_worker=False)
    (rank,) = run_ranks("bench.asynchronous.ranks", "1", "6", "2", "even", seconds=60, ranks=1)
    assert outcome.quality.normalized_entropy == pytest.approx(rank["entropy"], rel=1e-5)


@pytest.mark.e2e
def test_workers_train_on_every_sample_once():
    outcome = run(CONFIG, workers=2, has_slow_worker=True)
    assert sum(worker.samples for worker in outcome.trained) == 6 * 2048
    assert outcome.quality.samples == 2 * 2048
