"""Tests of the division of rows between the memory of the ranks, that of their hosts, and a disk."""

from trainer.scale.sharding.workload import Table, Workload, with_tiers

POPULAR, RARE = Table(1_000, 7, 50.0), Table(9_000, 7, 1.0)  # 32 and 288 kB with their state


def tables(room: int, host_room: int | None = None) -> tuple[Table, ...]:
    """Return the rare and the popular table on a rank with this room in bytes; None: its host has no limit."""
    return with_tiers(Workload((RARE, POPULAR), (8,)), room, host_room).tables


def shares(room: int) -> list[float]:
    """Return the share of each table that is in host memory."""
    return [table.host_share for table in tables(room)]


def test_rows_that_are_read_often_stay_in_memory_of_ranks() -> None:
    assert shares(32_000) == [1.0, 0.0]
    assert shares(320_000) == [0.0, 0.0]
    assert shares(0) == [1.0, 1.0]
    assert shares(32_000 + 144_000) == [0.5, 0.0]
    assert {table.disk_share for table in tables(0)} == {0.0}


def test_rows_that_hosts_have_no_memory_for_are_on_a_disk() -> None:
    rare, popular = tables(32_000, 144_000)
    assert (rare.memory_share, rare.host_share, rare.disk_share) == (0.0, 0.5, 0.5)
    assert (popular.memory_share, popular.host_share, popular.disk_share) == (1.0, 0.0, 0.0)
    rare, popular = tables(16_000, 16_000)
    assert (popular.host_share, popular.disk_share, rare.disk_share) == (0.5, 0.0, 1.0)


def test_without_host_memory_the_rest_is_on_a_disk() -> None:
    rare, popular = tables(32_000 + 72_000, 0)
    assert (rare.disk_share, rare.host_share, popular.disk_share) == (0.75, 0.0, 0.0)
