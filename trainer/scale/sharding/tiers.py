"""Three tiers: rows that are read often are in the memory of the ranks, others in that of their hosts or on a disk.

Ids are assumed to be spread evenly over the rows of a table, so rows of one table are alike, and the table between two
tiers is divided. A cache of popular rows does better (ZionEX caches rows of the host, arXiv 2104.05158).
"""

from __future__ import annotations

from dataclasses import replace

from trainer.scale.sharding.cost import Table, Workload


def with_tiers(workload: Workload, room: int, host_room: int | None = None) -> Workload:
    """Return the workload with the share of each table in host memory and on a disk.

    The ranks have `room` bytes of their own for all rows, and `host_room` of their hosts'; None: as many as needed.
    """
    tables = list(workload.tables)
    for number in sorted(range(len(tables)), key=lambda number: (-_reads(tables[number]), number)):
        table = tables[number]
        size = table.rows * (table.dim * workload.weight_bytes + workload.state_bytes(table.dim))
        of_ranks = min(size, max(0, room))
        of_hosts = size - of_ranks if host_room is None else min(size - of_ranks, host_room)
        on_disk = size - of_ranks - of_hosts
        tables[number] = replace(table, host_share=of_hosts / size, disk_share=on_disk / size)
        room -= of_ranks
        host_room = None if host_room is None else host_room - of_hosts
    return replace(workload, tables=tuple(tables))


def _reads(table: Table) -> float:
    """Return how often a sample reads a row of this table."""
    return table.pooling / table.rows
