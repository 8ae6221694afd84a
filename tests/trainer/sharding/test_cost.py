"""Tests of the costs of small tables: bytes, seconds and memory are compared with sums by hand."""

import pytest

from trainer.sharding import KINDS
from trainer.sharding.cost import GRADIENTS, IDS, POOLED, Cost, Machine, Table, Workload, table_cost, zero_cost

MACHINE = Machine(
    memory_bandwidth=1e9, lookup_seconds=1e-6, network_bandwidth=1e6, host_bandwidth=1e5, ranks_per_host=2
)
TABLE = Table(rows=100, dim=8, pooling=2.0)


def cost(kind: str, ranks: tuple[int, ...], machine: Machine = MACHINE, **more) -> Cost:
    table = more.pop("table", TABLE)
    return table_cost(KINDS[kind], ranks, table, Workload((table,), **{"samples": (5, 5), **more}), machine)


def test_table_wise_sends_each_vector_once() -> None:
    table_wise = cost("table_wise", (1,))
    assert table_wise.lookups.tolist() == [0, 20]
    assert table_wise.sent[IDS].tolist() == [60, 60]  # 10 ids and 5 lengths, of 4 bytes
    assert table_wise.received[IDS].tolist() == [0, 120]
    assert table_wise.sent[POOLED].tolist() == [0, 320]  # 10 vectors of 32 bytes
    assert table_wise.received[POOLED].tolist() == [160, 160]
    assert table_wise.sent[GRADIENTS].tolist() == [160, 160]
    assert table_wise.received[GRADIENTS].tolist() == [0, 320]
    assert table_wise.weights.tolist() == [0, 3200]
    assert table_wise.state.tolist() == [0, 400]
    assert table_wise.reduced.tolist() == [0, 0]


def test_only_bytes_to_other_ranks_take_network_time() -> None:
    table_wise = cost("table_wise", (1,))
    assert table_wise.sending[IDS].tolist() == pytest.approx([60e-6, 0])
    assert table_wise.receiving[POOLED].tolist() == pytest.approx([160e-6, 0])
    passes = 2 * (20 + 10) * 32 + 2 * 20 * 36
    exchange = (60 + 160 + 160) * 1e-6  # half of the bytes for all samples, in each of the three all-to-alls
    assert table_wise.seconds.tolist() == pytest.approx([exchange, exchange + passes * 1e-9 + 20e-6])


def test_row_wise_divides_lookups_and_multiplies_vectors() -> None:
    table_wise, row_wise = cost("table_wise", (0,)), cost("row_wise", (0, 1))
    assert row_wise.lookups.tolist() == [10, 10]
    assert row_wise.sent[POOLED].tolist() == [320, 320]
    assert row_wise.sent[POOLED].sum() == 2 * table_wise.sent[POOLED].sum()
    assert row_wise.weights.sum() == table_wise.weights.sum()


def test_data_parallel_needs_no_all_to_all_and_reduces_all_rows() -> None:
    copies = cost("data_parallel", (0, 1))
    assert copies.lookups.tolist() == [10, 10]
    assert not copies.sent.any()
    assert copies.reduced.tolist() == [3200, 3200]
    network = 2 * 1 / 2 * 3200 * 1e-6  # 2 (p - 1) / p
    passes = 2 * (10 + 5) * 32 + 4 * 3200 + 2 * 400
    assert copies.seconds.tolist() == pytest.approx([network + passes * 1e-9 + 10e-6] * 2)


@pytest.mark.parametrize("kind", KINDS)
def test_single_rank_does_not_wait_for_network(kind: str) -> None:
    ranks = KINDS[kind].choices(1, 1)[0]
    slow = Machine(1e9, 1e-6, network_bandwidth=1e-9, host_bandwidth=1e-9, ranks_per_host=1)
    assert cost(kind, ranks, slow, samples=(5,)).seconds[0] < 1


def test_transfer_to_another_host_is_slower() -> None:
    near = cost("table_wise", (0,), samples=(5, 5, 0, 0))
    far = cost("table_wise", (0,), samples=(5, 0, 5, 0))
    assert far.receiving[IDS, 0] == pytest.approx(20 * near.receiving[IDS, 0])  # a tenth, shared by two ranks
    assert near.received.tolist() != far.received.tolist()


def test_half_precision_halves_sent_bytes_but_not_weights() -> None:
    full, half = cost("table_wise", (0,)), cost("table_wise", (0,), forward_bytes=2, backward_bytes=2)
    assert 2 * half.sent[POOLED:].sum() == full.sent[POOLED:].sum()
    assert half.sent[IDS].tolist() == full.sent[IDS].tolist()
    assert half.weights.tolist() == full.weights.tolist()
    assert half.batch[0] > full.batch[0]  # rounded copies exist beside the originals


def test_small_table_needs_less_working_memory() -> None:
    few, many = (cost("table_wise", (0,), table=Table(rows, 8, 20.0)).working[0] for rows in (1, 1000))
    assert few < many


def test_costs_can_be_added_and_subtracted() -> None:
    single = cost("row_wise", (0, 1))
    double = single + single
    assert double.moved == 2 * single.moved
    assert (double - single).memory.tolist() == single.memory.tolist()
    assert (zero_cost(2) + single).seconds.tolist() == single.seconds.tolist()
