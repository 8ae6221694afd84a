"""Tests of the sharding kinds. Each row is in a single shard, or on every rank if the kind is replicated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.sharding import KINDS


@given(rows=st.integers(1, 200), num_ranks=st.integers(1, 9), name=st.sampled_from(sorted(KINDS)))
def test_shards_contain_each_row_once_or_on_every_rank(rows: int, num_ranks: int, name: str) -> None:
    kind = KINDS[name]
    for ranks in kind.choices(num_ranks):
        shards = kind.shards(3, rows, ranks)
        assert all(shard.table == 3 and shard.num_rows > 0 and shard.rank in ranks for shard in shards)
        rows_held = sorted(row for shard in shards for row in range(shard.first_row, shard.first_row + shard.num_rows))
        assert rows_held == sorted(list(range(rows)) * (num_ranks if kind.replicated else 1))


@pytest.mark.parametrize(("rows", "expected"), [(8, [3, 3, 2]), (2, [1, 1]), (1, [1]), (4, [2, 2])])
def test_row_wise_shards_are_even_and_omit_ranks_if_rows_are_few(rows: int, expected: list[int]) -> None:
    assert [shard.num_rows for shard in KINDS["row_wise"].shards(0, rows, (0, 1, 2))] == expected


def test_kind_has_name_of_its_key() -> None:
    assert [kind.name for kind in KINDS.values()] == list(KINDS)
