"""Tests of the division of rows between the memory of the ranks and that of their hosts."""

from trainer.scale.sharding.cost import Table, Workload
from trainer.scale.sharding.tiers import with_tiers

POPULAR, RARE = Table(1_000, 7, 50.0), Table(9_000, 7, 1.0)  # 32 and 288 kB with their state


def shares(room: int) -> list[float]:
    return [table.host_share for table in with_tiers(Workload((RARE, POPULAR), (8,)), room).tables]


def test_rows_that_are_read_often_stay_in_memory_of_ranks() -> None:
    assert shares(32_000) == [1.0, 0.0]
    assert shares(320_000) == [0.0, 0.0]
    assert shares(0) == [1.0, 1.0]
    assert shares(32_000 + 144_000) == [0.5, 0.0]
