"""Tests of the sharding kinds: one rank holds each row, or every rank does for replicated kinds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.sharding import KINDS


@given(rows=st.integers(1, 200), num_ranks=st.integers(1, 9), name=st.sampled_from(sorted(KINDS)))
def test_every_row_is_held_once_or_by_all(rows: int, num_ranks: int, name: str) -> None:
    kind = KINDS[name]
    for ranks in kind.choices(num_ranks):
        shards = kind.shards(3, rows, ranks)
        assert all(shard.table == 3 and shard.num_rows > 0 and shard.rank in ranks for shard in shards)
        rows_held = sorted(row for shard in shards for row in range(shard.first_row, shard.first_row + shard.num_rows))
        assert rows_held == sorted(list(range(rows)) * (num_ranks if kind.replicated else 1))


@pytest.mark.parametrize(("rows", "expected"), [(8, [3, 3, 2]), (2, [1, 1]), (1, [1]), (4, [2, 2])])
def test_row_wise_is_even_and_leaves_ranks_empty_if_rows_are_few(rows: int, expected: list[int]) -> None:
    assert [shard.num_rows for shard in KINDS["row_wise"].shards(0, rows, (0, 1, 2))] == expected


def test_kinds_have_the_name_of_their_key() -> None:
    assert [kind.name for kind in KINDS.values()] == list(KINDS)
