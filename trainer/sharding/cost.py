"""The cost of a table for each rank in a step, by kind and ranks: lookups, bytes, seconds and memory.

For a table with pooling factor P (mean ids of a sample) of which a rank holds the share s of the rows; p ranks, B
samples of the global batch, b samples of a rank, D columns:

    lookups      B · P · s on the rank of the rows; b · P for a copy
    all-to-all   ids and lengths b · (P · s + 1) to each shard, vectors b · D from it, their gradients to it
    all-reduce   rows · D, the gradient of a copy
    seconds      lookups, plus bytes of rows and vectors ÷ memory bandwidth: an id reads a row forward and a gradient
                 backward, a distinct row is read and written once, a vector and its gradient once; plus bytes that
                 cross the network ÷ network bandwidth. Data that stays on a rank does not cross: (p - 1) / p of an
                 all-to-all crosses, and 2 (p - 1) / p of an all-reduce (nccl-tests, PERFORMANCE.md). A rank sends and
                 receives at the same time
    memory       rows and one number of state for each; tensors of a batch, see `_shard_batch` and `_sample_batch`

Kinds and their communication are those of ZionEX (arXiv 2104.05158). Ids are assumed to be spread evenly over the
rows, and min(n, rows) of n ids in a shard to be distinct, which is an upper bound. Sums are computed in a fixed order,
so that every rank gets the same result to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trainer.sharding.kind import Kind, Merge, Shard

INDEX_BYTES = 4  # bytes of an id and of a length, on the network and in lookups
IDS, POOLED, GRADIENTS = range(3)  # the all-to-alls, one after the other

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """The size and use of a table."""

    rows: int
    dim: int
    pooling: float  # mean ids of a sample; a missing value counts as 0


@dataclass(frozen=True)
class Workload:
    """The input of a step: tables, samples and element sizes."""

    tables: tuple[Table, ...]
    samples: tuple[int, ...]  # samples of each rank
    element_bytes: int = 4  # bytes of a weight, and of an element of a vector in computation
    forward_bytes: int = 4  # bytes of an element of a pooled vector on the network
    backward_bytes: int = 4  # bytes of an element of its gradient on the network

    @property
    def num_ranks(self) -> int:
        return len(self.samples)


@dataclass(frozen=True)
class Machine:
    """The hardware of a rank; bandwidths in bytes per second."""

    memory_bandwidth: float
    lookup_seconds: float  # seconds of an id, in addition to reading its row
    network_bandwidth: float  # from a rank to other ranks of its host
    host_bandwidth: float  # from a host to other hosts; shared by the ranks of the host
    ranks_per_host: int

    def seconds_per_byte(self, num_ranks: int) -> Array:
        """Return the seconds per byte (R, R) from each rank to each rank."""
        host = np.arange(num_ranks) // self.ranks_per_host
        other_host = self.ranks_per_host / self.host_bandwidth
        return np.where(host[:, None] == host, 1 / self.network_bandwidth, other_host) * (1 - np.eye(num_ranks))


@dataclass(frozen=True, eq=False)
class Cost:
    """The cost of one or more tables for each rank.

    The last dimension of each array is the rank, the first of (3, R) the all-to-all. Costs of tables can be added.
    """

    lookups: Array  # (R,)
    sent: Array  # (3, R) bytes, including what a rank keeps
    received: Array  # (3, R)
    sending: Array  # (3, R) seconds, for bytes that cross the network
    receiving: Array  # (3, R)
    reduced: Array  # (R,) bytes of gradients in all-reduces
    working: Array  # (R,) seconds of lookups, updates and all-reduce
    weights: Array  # (R,) bytes
    state: Array  # (R,)
    batch: Array  # (R,)

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, field.name) - getattr(other, field.name) for field in fields(self)))

    @cached_property
    def seconds(self) -> Array:
        """The seconds of a step (R,). An all-to-all lasts as long as the slower of its two directions."""
        exchange = np.maximum(self.sending, self.receiving)
        seconds: Array = self.working + exchange[IDS] + exchange[POOLED] + exchange[GRADIENTS]
        return seconds

    @cached_property
    def memory(self) -> Array:
        """The bytes of weights, state and batch (R,)."""
        memory: Array = self.weights + self.state + self.batch
        return memory

    @cached_property
    def moved(self) -> float:
        """The bytes in all collectives of all ranks; it decides between options with equal seconds."""
        return total([*self.sent.reshape(-1), *self.reduced])


def total(values: Iterable[float]) -> float:
    """Sum values in their order; numpy's own sum depends on the vector width of the CPU."""
    return float(sum(values))


def zero_cost(num_ranks: int) -> Cost:
    """Return the cost of no tables."""
    by_rank, by_call = (num_ranks,), (3, num_ranks)
    shapes = (by_rank, *(by_call,) * 4, *(by_rank,) * 5)
    return Cost(*(np.zeros(shape) for shape in shapes))


def table_cost(kind: Kind, ranks: Sequence[int], table: Table, workload: Workload, machine: Machine) -> Cost:
    """Return the cost of a table of this kind on these ranks."""
    cost = zero_cost(workload.num_ranks)
    shards = kind.shards(0, table.rows, table.dim, ranks)
    if kind.replicated:
        _add_copies(cost, shards, table, workload, machine)
    else:
        seconds_per_byte = machine.seconds_per_byte(workload.num_ranks)
        for shard in shards:
            of_shard = replace(table, dim=shard.num_columns)
            _add_shard(cost, shard, of_shard, workload, machine, seconds_per_byte)
            cost.working[shard.rank] += _merge_seconds(shard, len(shards), of_shard, workload, machine)
    return cost


def _add_shard(cost: Cost, shard: Shard, table: Table, workload: Workload, machine: Machine, per_byte: Array) -> None:
    """Add the cost of rows that are looked up for the samples of all ranks to `cost`, in place."""
    samples, rank = np.array(workload.samples, dtype=np.float64), shard.rank
    share, row_bytes = shard.num_rows / table.rows, table.dim * workload.element_bytes
    ids = samples * table.pooling * share  # (R,), the ids that each rank sends
    num_bags, num_ids = total(samples), total(ids)
    meeting = samples  # of the ranks that exchange vectors with the shard
    if shard.merge is Merge.HOST:  # those of its rail
        meeting = samples * (np.arange(len(samples)) % machine.ranks_per_host == rank % machine.ranks_per_host)
    to_shard = {IDS: (ids + samples) * INDEX_BYTES, GRADIENTS: meeting * table.dim * workload.backward_bytes}
    for call, size in to_shard.items():
        cost.sent[call] += size
        cost.received[call, rank] += total(size)
        cost.sending[call] += size * per_byte[:, rank]
        cost.receiving[call, rank] += total(size * per_byte[:, rank])
    vectors = meeting * table.dim * workload.forward_bytes
    cost.received[POOLED] += vectors
    cost.sent[POOLED, rank] += total(vectors)
    cost.receiving[POOLED] += vectors * per_byte[rank]
    cost.sending[POOLED, rank] += total(vectors * per_byte[rank])

    distinct = min(num_ids, shard.num_rows)
    passes = 2 * (num_ids + num_bags) * row_bytes + 2 * distinct * (row_bytes + workload.element_bytes)
    cost.lookups[rank] += num_ids
    cost.working[rank] += passes / machine.memory_bandwidth + num_ids * machine.lookup_seconds
    cost.weights[rank] += shard.num_rows * row_bytes
    cost.state[rank] += shard.num_rows * workload.element_bytes
    cost.batch[rank] += _shard_batch(num_ids, num_bags, distinct, table, workload)
    cost.batch[:] += _sample_batch(ids, samples, table, workload)


def _merge_seconds(shard: Shard, num_shards: int, table: Table, workload: Workload, machine: Machine) -> float:
    """Return the seconds of sums over the ranks of a table: of vectors on a host, or of squares of columns."""
    peers, num_bags = num_shards - 1, total(workload.samples)
    if shard.merge is Merge.HOST:  # a part of the vectors forward, a part of the gradients backward
        return 2 * peers * num_bags / num_shards * table.dim * workload.element_bytes / machine.network_bandwidth
    if shard.merge is Merge.COLUMNS:
        distinct = min(num_bags * table.pooling, shard.num_rows)
        return peers * distinct * workload.element_bytes / machine.network_bandwidth
    return 0.0


def _add_copies(cost: Cost, shards: Sequence[Shard], table: Table, workload: Workload, machine: Machine) -> None:
    """Add the cost of a copy on each rank to `cost`: lookups of its samples, all-reduce and update of all rows."""
    row_bytes, slowest = table.dim * workload.element_bytes, machine.seconds_per_byte(workload.num_ranks).max()
    crossing = 2 * (workload.num_ranks - 1) / workload.num_ranks
    for shard in shards:
        rank, num_bags = shard.rank, workload.samples[shard.rank]
        num_ids, rows = num_bags * table.pooling, shard.num_rows
        gradient = rows * row_bytes
        passes = 2 * (num_ids + num_bags) * row_bytes + 4 * gradient + 2 * rows * workload.element_bytes
        cost.lookups[rank] += num_ids
        cost.reduced[rank] += gradient
        cost.working[rank] += passes / machine.memory_bandwidth + num_ids * machine.lookup_seconds
        cost.working[rank] += crossing * gradient * slowest
        cost.weights[rank] += gradient
        cost.state[rank] += rows * workload.element_bytes
        cost.batch[rank] += (
            gradient
            + (num_ids + 2 * num_bags) * row_bytes  # a gradient for each id, vectors and their gradients
            + num_ids * (_BATCH_OF_IDS + INDEX_BYTES)
        )


# Tensors of a batch in the trainer. Two batches exist at a time, because the ids of the next batch are in flight.
_SORTED = 20  # bytes per id: sorted, its former position, its bag
_BATCH_OF_IDS = 2 * 8  # bytes per id in the batches of the source


def _shard_batch(num_ids: float, num_bags: float, distinct: float, table: Table, workload: Workload) -> float:
    """Return the bytes on the rank of the rows: ids, vectors to send, gradients received, gradients merged by row."""
    ids = (num_ids + num_bags) * 2 * INDEX_BYTES + num_ids * _SORTED
    vectors = (
        num_bags
        * table.dim
        * (_with_wire(workload, workload.forward_bytes) + _with_wire(workload, workload.backward_bytes))
    )
    return ids + vectors + distinct * table.dim * workload.element_bytes


def _sample_batch(ids: Array, samples: Array, table: Table, workload: Workload) -> Array:
    """Return the bytes (R,) on the samples' ranks: ids as read and as sent, vectors received and merged, gradients."""
    element = (
        _with_wire(workload, workload.forward_bytes)
        + workload.element_bytes
        + _with_wire(workload, workload.backward_bytes)
    )
    vectors = samples * table.dim * element
    size: Array = (ids + samples) * (_BATCH_OF_IDS + 2 * INDEX_BYTES) + vectors
    return size


def _with_wire(workload: Workload, wire_bytes: int) -> int:
    """Return the bytes of an element. A lower precision on the network needs a scaled and a converted copy."""
    return workload.element_bytes + (workload.element_bytes + wire_bytes if wire_bytes < workload.element_bytes else 0)
