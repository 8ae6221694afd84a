"""The input of the planner: the tables, the samples of each rank, and the hardware of a rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Columns = TypeVar("Columns", int, Array)


@dataclass(frozen=True)
class Table:
    """The size and use of a table."""

    rows: int
    dim: int
    pooling: float  # mean ids of a sample; a missing value counts as 0
    host_share: float = 0.0  # share of the rows of each shard that are in the memory of the host, not of the rank
    disk_share: float = 0.0  # share of these rows that are on a disk; copies on every rank are never on one

    @property
    def memory_share(self) -> float:
        """The share of the rows of each shard that are in the memory of the rank."""
        return 1 - self.host_share - self.disk_share


@dataclass(frozen=True)
class Workload:
    """The input of a step: tables, samples and element sizes."""

    tables: tuple[Table, ...]
    samples: tuple[int, ...]  # samples of each rank
    element_bytes: int = 4  # bytes of an element of a vector in computation, and of a number of optimizer state
    weight_bytes: int = 4  # bytes of a weight; copies on every rank have elements
    forward_bytes: int = 4  # bytes of an element of a pooled vector on the network
    backward_bytes: int = 4  # bytes of an element of its gradient on the network
    shared_moments: bool = True  # the shards of a column-wise table exchange the squares of their gradients
    elementwise_state: bool = False  # there is a number of optimizer state for each weight, not for each row

    @property
    def num_ranks(self) -> int:
        return len(self.samples)

    def state_bytes(self, columns: Columns) -> Columns | int:
        """Return the bytes of the optimizer state of a row of this many columns."""
        return columns * self.element_bytes if self.elementwise_state else self.element_bytes


@dataclass(frozen=True)
class Machine:
    """The hardware of a rank; bandwidths in bytes per second."""

    memory_bandwidth: float
    lookup_seconds: float  # seconds of an id, in addition to reading its row
    network_bandwidth: float  # from a rank to other ranks of its host
    host_bandwidth: float  # from a host to other hosts; shared by the ranks of the host
    ranks_per_host: int
    host_memory_bandwidth: float = float("inf")  # from the memory of the host to a rank
    disk_bandwidth: float = float("inf")  # from a disk to a rank, for scattered rows

    def all_reduce_seconds(self, size: Array | float, num_ranks: int) -> Array | float:
        """Return the seconds of an all-reduce of `size` bytes: 2 (p - 1) / p of them cross the slowest link.

        In a ring, which visits one host after the other, a single rank of a host sends to the next host
        (nccl-tests, PERFORMANCE.md).
        """
        slowest = min(self.network_bandwidth, self.host_bandwidth)
        bandwidth = self.network_bandwidth if num_ranks <= self.ranks_per_host else slowest
        return 2 * (num_ranks - 1) / num_ranks * size / bandwidth


def with_tiers(workload: Workload, room: int, host_room: int | None = None) -> Workload:
    """Return the workload with the share of each table in host memory and on a disk.

    Rows that are read often are in the memory of the ranks, other rows in the memory of the hosts or on a disk. The
    ranks have `room` bytes for all rows, and their hosts have `host_room` bytes (None: as many as needed). Ids are
    assumed to be spread evenly over the rows of a table, so any rows of the table between two tiers may be in either. A
    cache of popular rows does better (ZionEX caches rows of the host, arXiv 2104.05158).
    """
    tables = list(workload.tables)
    for index in sorted(range(len(tables)), key=lambda index: (-_reads(tables[index]), index)):
        table = tables[index]
        size = table.rows * (table.dim * workload.weight_bytes + workload.state_bytes(table.dim))
        rank_bytes = min(size, max(0, room))
        host_bytes = size - rank_bytes if host_room is None else min(size - rank_bytes, host_room)
        on_disk = size - rank_bytes - host_bytes
        tables[index] = replace(table, host_share=host_bytes / size, disk_share=on_disk / size)
        room -= rank_bytes
        host_room = None if host_room is None else host_room - host_bytes
    return replace(workload, tables=tuple(tables))


def _reads(table: Table) -> float:
    """Return how often a sample reads a row of this table."""
    return table.pooling / table.rows
