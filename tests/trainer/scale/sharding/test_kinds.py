"""Tests of the sharding kinds. Each row is in a single shard, or on every rank if the kind is replicated."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.registry import KINDS


@given(
    rows=st.integers(1, 60),
    dim=st.integers(1, 9),
    num_hosts=st.integers(1, 3),
    ranks_per_host=st.integers(1, 4),
    name=st.sampled_from(sorted(KINDS)),
)
def test_shards_contain_each_weight_once_or_on_every_rank(rows, dim, num_hosts, ranks_per_host, name) -> None:
    kind, num_ranks = KINDS[name], num_hosts * ranks_per_host
    for ranks in kind.choices(num_ranks, ranks_per_host):
        shards = kind.shards(3, rows, dim, ranks)
        assert all(shard.table == 3 and shard.num_columns > 0 and shard.rank in ranks for shard in shards)
        assert len({shard.rank for shard in shards}) == len(shards)
        held = Counter(
            (shard.first_row + row, shard.first_column + column)
            for shard in shards
            for row in range(shard.num_rows)
            for column in range(shard.num_columns)
        )
        assert held == dict.fromkeys(product(range(rows), range(dim)), num_ranks if kind.replicated else 1)


def test_table_row_wise_needs_equal_hosts() -> None:
    assert KINDS["table_row_wise"].choices(6, 2) == [(0, 1), (2, 3), (4, 5)]
    assert KINDS["table_row_wise"].choices(5, 2) == []


def test_column_wise_divides_the_ranks_evenly() -> None:
    assert KINDS["column_wise"].choices(4, 2) == [(0, 1), (2, 3), (0, 1, 2, 3)]
    assert KINDS["column_wise"].choices(1, 1) == [(0,)]
    shards = KINDS["column_wise"].shards(0, 5, 7, (0, 1, 2))
    assert [(shard.first_column, shard.num_columns) for shard in shards] == [(0, 3), (3, 3), (6, 1)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(8, [3, 3, 2], id="8 rows"),
        pytest.param(2, [1, 1], id="fewer rows than ranks"),
        pytest.param(1, [1], id="a single row"),
        pytest.param(4, [2, 2], id="two rows each leave none for the third"),
    ],
)
def test_row_wise_shards_are_even(rows: int, expected: list[int]) -> None:
    assert [shard.num_rows for shard in KINDS["row_wise"].shards(0, rows, 4, (0, 1, 2))] == expected


def test_kind_has_name_of_its_key() -> None:
    assert [kind.name for kind in KINDS.values()] == list(KINDS)
