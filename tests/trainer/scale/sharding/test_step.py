"""Tests of the seconds of a step: bytes that cross the network, within a host and between hosts."""

from dataclasses import replace

import numpy as np
import pytest

from tests.trainer.scale.sharding.build import MACHINE, TABLE
from trainer.registry import KINDS
from trainer.scale.sharding.cost import Load, table_cost
from trainer.scale.sharding.step import Step
from trainer.scale.sharding.workload import Machine, Workload


def step(kind: str, ranks: tuple[int, ...], samples: tuple[int, ...], machine: Machine = MACHINE):
    """Return the step of a job with the table, and the cost of the table of this kind on these ranks."""
    workload = Workload((TABLE,), samples)
    return Step(workload, machine), table_cost(KINDS[kind], ranks, TABLE, workload, machine)


def test_ids_and_gradients_go_to_shards_and_vectors_come_back() -> None:
    step_model, loads = step("table_wise", (1,), (5, 5))
    sent, received = step_model.sent_and_received(loads)
    assert sent[Load.IDS].tolist() == [60, 60]
    assert received[Load.IDS].tolist() == [0, 120]
    assert sent[Load.POOLED].tolist() == [0, 320]
    assert received[Load.POOLED].tolist() == [160, 160]
    assert sent[Load.GRADIENTS].tolist() == [160, 160]
    assert received[Load.GRADIENTS].tolist() == [0, 320]


def test_only_bytes_to_other_ranks_take_network_time() -> None:
    step_model, loads = step("table_wise", (1,), (5, 5))
    exchange = (60 + 160 + 160) * 1e-6  # half of the bytes for all samples, in each of the three all-to-alls
    assert step_model.exchanges(loads).sum(axis=0).tolist() == pytest.approx([exchange] * 2)
    assert step_model.seconds(loads).tolist() == pytest.approx([exchange, exchange + loads[Load.WORK, 1] / 1e12])


def test_sent_bytes_stay_on_the_rank_or_go_to_its_host_or_to_others() -> None:
    step_model, loads = step("row_wise", (0, 1, 2, 3), (5, 4, 3, 6))
    local_bytes = step_model.share * loads[[Load.IDS, Load.POOLED, Load.GRADIENTS]]
    parts = local_bytes + step_model.within_hosts(loads) + step_model.crossing_hosts(loads)
    sent, _ = step_model.sent_and_received(loads)
    assert parts.flatten().tolist() == pytest.approx(sent.flatten().tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_single_rank_does_not_wait_for_network(kind: str) -> None:
    slow = replace(MACHINE, network_bandwidth=1e-9, host_bandwidth=1e-9, ranks_per_host=1)
    step_model, loads = step(kind, KINDS[kind].choices(1, 1)[0], (5,), slow)
    assert step_model.seconds(loads)[0] < 1


def test_seconds_equal_sums_over_all_pairs_of_ranks() -> None:
    samples = (5, 4, 3, 6, 2)  # the last host has one rank
    step_model, loads = step("row_wise", (0, 1, 2, 3, 4), samples)
    host = np.arange(5) // 2
    per_byte = np.where(host[:, None] == host, 1e-6, 2e-5) * (1 - np.eye(5))
    sent = np.outer(samples, loads[Load.IDS]) / sum(samples)  # from each rank to each shard
    slower = np.maximum((sent * per_byte).sum(axis=1), (sent * per_byte).sum(axis=0))
    assert step_model.exchanges(loads)[Load.IDS].tolist() == pytest.approx(slower.tolist())


def test_several_loads_are_computed_at_once() -> None:
    step_model, loads = step("table_wise", (1,), (5, 5))
    stacked = np.stack([loads, 2 * loads])
    assert step_model.seconds(stacked).tolist() == [
        step_model.seconds(loads).tolist(),
        step_model.seconds(2 * loads).tolist(),
    ]
