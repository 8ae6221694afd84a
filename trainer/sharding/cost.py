"""What a table costs each rank in a step, by kind and ranks: lookups, bytes, seconds and memory.

Of a table with `pooling` ids a sample, `share` of its rows on a rank; p ranks, B samples in all, b of a rank, D columns

    lookups      B · pooling · share where the rows are; b · pooling of a copy
    all-to-all   ids and lengths b · (pooling · share + 1) to each shard, vectors b · D from it, their gradients to it
    all-reduce   rows · D, the gradient of a copy
    seconds      of each id, and bytes of rows and vectors ÷ memory bandwidth: an id reads a row forward and a gradient
                 backward, a different row is read and written once, a vector and its gradient once; then bytes that
                 cross ÷ network bandwidth. What stays on a rank crosses nothing: (p - 1) / p of an all-to-all does, and
                 2 (p - 1) / p of an all-reduce (nccl-tests, PERFORMANCE.md). A rank sends and receives at the same time
    memory       rows and one number of state each; tensors of a batch, see `_batch_here` and `_batch_there`

Kinds and what they exchange are those of ZionEX (arXiv 2104.05158). Ids are taken to be spread evenly over the rows,
and of n ids in a shard min(n, rows) to be different: an upper bound. Sums are made in one order, so that every rank
gets the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trainer.sharding.kind import Kind, Shard

INDEX_BYTES = 4  # of an id and of a length, on the wire and where they are looked up
IDS, POOLED, GRADIENTS = range(3)  # the all-to-alls, one after the other

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """What a table is and how it is used."""

    rows: int
    dim: int
    pooling: float  # ids a sample, the mean; missing ones are 0


@dataclass(frozen=True)
class Job:
    """What a step is."""

    tables: tuple[Table, ...]
    samples: tuple[int, ...]  # of each rank, by rank
    element_bytes: int = 4  # of a weight, and of a vector's element where it is computed with
    forward_bytes: int = 4  # of a vector's element on the wire
    backward_bytes: int = 4  # of a gradient's

    @property
    def num_ranks(self) -> int:
        return len(self.samples)


@dataclass(frozen=True)
class Machine:
    """What a rank has to do it with; bandwidths in bytes a second."""

    memory_bandwidth: float
    lookup_seconds: float  # of an id, beside the bytes of its row
    network_bandwidth: float  # of a rank, to others on its host
    host_bandwidth: float  # of a host, to other hosts; its ranks share it
    ranks_per_host: int

    def seconds_per_byte(self, num_ranks: int) -> Array:
        """(R, R) from a rank to a rank."""
        host = np.arange(num_ranks) // self.ranks_per_host
        apart = self.ranks_per_host / self.host_bandwidth
        return np.where(host[:, None] == host, 1 / self.network_bandwidth, apart) * (1 - np.eye(num_ranks))


@dataclass(frozen=True, eq=False)
class Cost:
    """By rank, the last dimension of each; the first one of (3, R) is the all-to-all. Costs of tables add up."""

    lookups: Array  # (R,)
    sent: Array  # (3, R) bytes, a rank's own part included
    received: Array  # (3, R)
    sending: Array  # (3, R) seconds, of what crosses
    receiving: Array  # (3, R)
    reduced: Array  # (R,) bytes of gradients in all-reduces
    working: Array  # (R,) seconds of lookups, updates and all-reduce
    weights: Array  # (R,) bytes
    state: Array  # (R,)
    batch: Array  # (R,)

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, each.name) - getattr(other, each.name) for each in fields(self)))

    @cached_property
    def seconds(self) -> Array:
        """(R,): an all-to-all lasts as long as the fuller of its two directions."""
        exchange = np.maximum(self.sending, self.receiving)
        seconds: Array = self.working + exchange[IDS] + exchange[POOLED] + exchange[GRADIENTS]
        return seconds

    @cached_property
    def memory(self) -> Array:
        """(R,) bytes."""
        memory: Array = self.weights + self.state + self.batch
        return memory

    @cached_property
    def moved(self) -> float:
        """Bytes in all collectives of all ranks: what costs of equal seconds are told apart by."""
        return total([*self.sent.reshape(-1), *self.reduced])


def total(values: Iterable[float]) -> float:
    """In their order, on every processor: numpy's own sum depends on its vector width."""
    return float(sum(values))


def nothing(num_ranks: int) -> Cost:
    """What no table costs."""
    one, three = (num_ranks,), (3, num_ranks)
    shapes = (one, three, three, three, three, one, one, one, one, one)
    return Cost(*(np.zeros(shape) for shape in shapes))


def cost_of(kind: Kind, ranks: Sequence[int], table: Table, job: Job, machine: Machine) -> Cost:
    """A table spread in this way."""
    cost = nothing(job.num_ranks)
    shards = kind.shards(0, table.rows, ranks)
    if kind.replicated:
        _add_copies(cost, shards, table, job, machine)
    else:
        seconds_per_byte = machine.seconds_per_byte(job.num_ranks)
        for shard in shards:
            _add_shard(cost, shard, table, job, machine, seconds_per_byte)
    return cost


def _add_shard(cost: Cost, shard: Shard, table: Table, job: Job, machine: Machine, per_byte: Array) -> None:
    """Rows that are looked up for the samples of all ranks: the new arrays of `cost` are added to in place."""
    samples, here = np.array(job.samples, dtype=np.float64), shard.rank
    share, row_bytes = shard.num_rows / table.rows, table.dim * job.element_bytes
    ids = samples * table.pooling * share  # (R,) that each rank sends
    num_bags, num_ids = total(samples), total(ids)
    toward = {IDS: (ids + samples) * INDEX_BYTES, GRADIENTS: samples * table.dim * job.backward_bytes}
    for call, size in toward.items():
        cost.sent[call] += size
        cost.received[call, here] += total(size)
        cost.sending[call] += size * per_byte[:, here]
        cost.receiving[call, here] += total(size * per_byte[:, here])
    vectors = samples * table.dim * job.forward_bytes
    cost.received[POOLED] += vectors
    cost.sent[POOLED, here] += total(vectors)
    cost.receiving[POOLED] += vectors * per_byte[here]
    cost.sending[POOLED, here] += total(vectors * per_byte[here])

    different = min(num_ids, shard.num_rows)
    passes = 2 * (num_ids + num_bags) * row_bytes + 2 * different * (row_bytes + job.element_bytes)
    cost.lookups[here] += num_ids
    cost.working[here] += passes / machine.memory_bandwidth + num_ids * machine.lookup_seconds
    cost.weights[here] += shard.num_rows * row_bytes
    cost.state[here] += shard.num_rows * job.element_bytes
    cost.batch[here] += _batch_here(num_ids, num_bags, different, table, job)
    cost.batch[:] += _batch_there(ids, samples, table, job)


def _add_copies(cost: Cost, shards: Sequence[Shard], table: Table, job: Job, machine: Machine) -> None:
    """A copy on each rank: its own samples are looked up, the gradient of all rows is reduced, all are updated."""
    row_bytes, slowest = table.dim * job.element_bytes, machine.seconds_per_byte(job.num_ranks).max()
    crossing = 2 * (job.num_ranks - 1) / job.num_ranks
    for shard in shards:
        here, num_bags = shard.rank, job.samples[shard.rank]
        num_ids, rows = num_bags * table.pooling, shard.num_rows
        gradient = rows * row_bytes
        passes = 2 * (num_ids + num_bags) * row_bytes + 4 * gradient + 2 * rows * job.element_bytes
        cost.lookups[here] += num_ids
        cost.reduced[here] += gradient
        cost.working[here] += passes / machine.memory_bandwidth + num_ids * machine.lookup_seconds
        cost.working[here] += crossing * gradient * slowest
        cost.weights[here] += gradient
        cost.state[here] += rows * job.element_bytes
        cost.batch[here] += (
            gradient
            + (num_ids + 2 * num_bags) * row_bytes  # a gradient for each id, vectors and their gradients
            + num_ids * (_BATCH_OF_IDS + INDEX_BYTES)
        )


# Tensors of a batch, as the trainer makes them. Two batches are there at a time: the next one's ids are on their way.
_SORTED = 20  # bytes an id: in their order, where they were, which bag they are in
_BATCH_OF_IDS = 2 * 8  # bytes an id, as the source hands it out


def _batch_here(num_ids: float, num_bags: float, different: float, table: Table, job: Job) -> float:
    """Bytes where the rows are: ids, vectors before and gradients after the wire, those merged by row."""
    ids = (num_ids + num_bags) * 2 * INDEX_BYTES + num_ids * _SORTED
    vectors = num_bags * table.dim * (_with_wire(job, job.forward_bytes) + _with_wire(job, job.backward_bytes))
    return ids + vectors + different * table.dim * job.element_bytes


def _batch_there(ids: Array, samples: Array, table: Table, job: Job) -> Array:
    """Bytes where the samples are, (R,): ids as read and as sent, vectors as received and as joined, gradients."""
    element = _with_wire(job, job.forward_bytes) + job.element_bytes + _with_wire(job, job.backward_bytes)
    vectors = samples * table.dim * element
    size: Array = (ids + samples) * (_BATCH_OF_IDS + 2 * INDEX_BYTES) + vectors
    return size


def _with_wire(job: Job, wire_bytes: int) -> int:
    """Of an element: a narrower one on the wire is a copy, made by way of another."""
    return job.element_bytes + (job.element_bytes + wire_bytes if wire_bytes < job.element_bytes else 0)
