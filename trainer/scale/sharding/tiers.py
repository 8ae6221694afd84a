"""Two tiers of memory: rows that are read often are in the memory of the ranks, others in that of their hosts.

Ids are assumed to be spread evenly over the rows of a table, so rows of one table are alike, and the table between the
two tiers is divided. A cache of popular rows would do better (ZionEX caches rows of the host, arXiv 2104.05158).
"""

from __future__ import annotations

from dataclasses import replace

from trainer.scale.sharding.cost import Table, Workload


def with_tiers(workload: Workload, room: int) -> Workload:
    """Return the workload with the share of each table in host memory, if the ranks have `room` bytes for all rows."""
    shares: dict[int, float] = {}
    for number in sorted(range(len(workload.tables)), key=lambda number: (-_reads(workload.tables[number]), number)):
        table = workload.tables[number]
        size = table.rows * (table.dim + 1) * workload.element_bytes
        memory_bytes = min(size, max(0, room))
        shares[number] = 1 - memory_bytes / size
        room -= memory_bytes
    tables = tuple(replace(table, host_share=shares[number]) for number, table in enumerate(workload.tables))
    return replace(workload, tables=tables)


def _reads(table: Table) -> float:
    """Return how often a sample reads a row of this table."""
    return table.pooling / table.rows
