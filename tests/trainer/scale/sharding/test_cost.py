"""Tests of the costs of small tables: bytes, work and memory are compared with sums by hand.

Unless a test says otherwise, each of two ranks has five samples, so that a step has 20 ids of the table.
"""

from dataclasses import replace

import pytest

from tests.trainer.scale.sharding.build import MACHINE, TABLE
from trainer.registry import KINDS
from trainer.scale.sharding.cost import Load, Loads, layouts, table_cost
from trainer.scale.sharding.workload import Machine, Table, Workload

ROWS = [Load.WEIGHTS, Load.STATE]  # what is stored for rows


def cost(kind: str, ranks: tuple[int, ...], machine: Machine = MACHINE, **more) -> Loads:
    """Return the cost of a table of this kind on these ranks; `more` is another table, or fields of the workload."""
    table = more.pop("table", TABLE)
    return table_cost(KINDS[kind], ranks, table, Workload((table,), **{"samples": (5, 5), **more}), machine)


def test_work_is_bytes_of_rows_and_vectors_and_time_of_ids() -> None:
    passes = 2 * (20 + 10) * 32 + 2 * 20 * 36
    assert cost("table_wise", (1,))[Load.WORK].tolist() == [0, passes * 1000 + 20 * 10**6]  # picoseconds


def test_row_wise_divides_lookups_and_multiplies_vectors() -> None:
    table_wise, row_wise = cost("table_wise", (0,)), cost("row_wise", (0, 1))
    assert row_wise[Load.LOOKUPS].tolist() == [10, 10]
    assert row_wise[Load.POOLED].tolist() == [320, 320]
    assert row_wise[Load.POOLED].sum() == 2 * table_wise[Load.POOLED].sum()
    assert row_wise[Load.WEIGHTS].sum() == table_wise[Load.WEIGHTS].sum()


def test_squares_go_to_every_shard_of_a_column_wise_table() -> None:
    """Squares of 20 rows, 4 bytes each, go to 4 shards: the rank itself, one on its host, and two on another host."""
    samples = (5, 5, 0, 0)
    columns = cost("column_wise", (0, 1, 2, 3), samples=samples)
    assert columns[[Load.MERGED, Load.NEAR, Load.FAR]].T.tolist() == [[320, 80, 160]] * 4
    alone = cost("column_wise", (0, 1, 2, 3), samples=samples, shared_moments=False)
    assert not alone[[Load.MERGED, Load.NEAR, Load.FAR]].any()
    picoseconds = 80 * 10**6 + 160 * 2 * 10**7  # a rank has half of the bandwidth of its host
    assert (columns[Load.WORK] - alone[Load.WORK]).tolist() == [picoseconds] * 4


def test_table_row_wise_merges_vectors_of_all_samples_and_gradients_of_the_rail() -> None:
    rows = cost("table_row_wise", (0, 1), samples=(2, 1, 1, 1))  # rails of 3 and 2 samples, vectors of 32 bytes
    assert rows[Load.MERGED].tolist() == [(5 + 2 * 3) * 32, (5 + 2 * 2) * 32, 0, 0]
    assert rows[Load.NEAR].tolist() == [(2 + 3) * 32, (3 + 2) * 32, 0, 0]
    assert not rows[Load.FAR].any()


def test_data_parallel_needs_no_all_to_all_and_reduces_all_rows() -> None:
    copies = cost("data_parallel", (0, 1))
    assert copies[Load.LOOKUPS].tolist() == [10, 10]
    assert not copies[[Load.IDS, Load.POOLED, Load.GRADIENTS]].any()
    assert copies[Load.REDUCED].tolist() == [3200, 3200]
    network = 2 * 1 / 2 * 3200 * 1e-6  # 2 (p - 1) / p
    passes = 2 * (10 + 5) * 32 + 4 * 3200 + 2 * 400
    assert (copies[Load.WORK] / 1e12).tolist() == pytest.approx([network + passes * 1e-9 + 10e-6] * 2)


def test_all_reduce_takes_slowest_link_only_if_there_are_several_hosts() -> None:
    assert MACHINE.all_reduce_seconds(1e6, 1) == 0
    assert MACHINE.all_reduce_seconds(1e6, 2) == pytest.approx(1)
    assert MACHINE.all_reduce_seconds(1e6, 4) == pytest.approx(15)  # 2 · 3 / 4 at a tenth of the bandwidth


def test_lookups_of_few_distinct_rows_take_less_time() -> None:
    few, many = (cost("table_wise", (0,), table=Table(rows, 8, 20.0))[Load.WORK, 0] for rows in (1, 1000))
    assert few < many


@pytest.mark.parametrize("kind", ["table_wise", "data_parallel"])
def test_rows_in_host_memory_take_its_space_and_its_bandwidth(kind: str) -> None:
    slow = replace(MACHINE, lookup_seconds=0.0, host_memory_bandwidth=1e8)
    ranks = (0, 1) if kind == "data_parallel" else (0,)
    whole = cost(kind, ranks, slow)
    half = cost(kind, ranks, slow, table=replace(TABLE, host_share=0.5))
    assert half[Load.HOST_MEMORY, 0] == half[ROWS, 0].sum() == whole[ROWS, 0].sum() / 2
    num_ids, touched = (20, 20) if kind == "table_wise" else (10, 100)
    rows_read = num_ids * 32 + 2 * touched * 36
    assert half[Load.WORK, 0] - whole[Load.WORK, 0] == rows_read / 2 * (10 - 1) * 1000


def test_rows_on_a_disk_take_no_memory_and_a_page_each() -> None:
    slow = replace(MACHINE, lookup_seconds=0.0, disk_bandwidth=1e8)
    whole = cost("table_wise", (0,), slow)
    half = cost("table_wise", (0,), slow, table=replace(TABLE, disk_share=0.5))
    assert half[Load.DISK, 0] == half[ROWS, 0].sum() == whole[ROWS, 0].sum() / 2
    rows_read, pages = 20 * 32 + 2 * 20 * 36, 2 * 20 * 4096  # 20 ids of 20 rows, each read and written
    assert half[Load.WORK, 0] - whole[Load.WORK, 0] == (pages * 10 - rows_read) / 2 * 1000


def test_copies_are_never_on_a_disk() -> None:
    whole = cost("data_parallel", (0, 1))
    half = cost("data_parallel", (0, 1), table=replace(TABLE, disk_share=0.5))
    assert (whole == half).all()


def test_layouts_have_cost_of_each_choice_of_ranks() -> None:
    workload = Workload((TABLE,), (5, 4, 5, 4, 5, 4))  # three ranks are two of one host and one of another
    for kind in KINDS.values():
        kind_layouts = layouts(kind, TABLE, workload, MACHINE)
        for layout in kind_layouts:
            for number, ranks in enumerate(layout.groups):
                loads = layout.fixed_loads.copy()
                loads[:, layout.shard_ranks[number]] += layout.shard_loads
                assert (loads == table_cost(kind, ranks, TABLE, workload, MACHINE)).all()
        choices = [ranks for layout in kind_layouts for ranks in layout.groups]
        assert sorted(choices) == sorted(kind.choices(6, MACHINE.ranks_per_host))


def test_time_without_end_is_limited_so_that_sums_do_not_overflow() -> None:
    still = replace(MACHINE, memory_bandwidth=1e-9, network_bandwidth=1e-9, host_bandwidth=1e-9, ranks_per_host=1)
    assert (10_000 * cost("table_wise", (0,), still)[Load.WORK] >= 0).all()
