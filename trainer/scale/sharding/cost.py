"""The cost of a table for each rank in a step, by kind and ranks: lookups, bytes, seconds and memory.

A table has D columns and the pooling factor P (mean ids of a sample), and a rank holds the share s of its rows. The
global batch has B samples, and the rank has b of them:

    lookups      B · P · s on the rank of the rows; b · P for a copy
    all-to-all   ids and lengths b · (P · s + 1) to each shard, vectors b · D from it, their gradients to it
    merges       between the shards of a table: vectors and their gradients of a table-row-wise table, on its host; the
                 squares of the rows' gradients of a column-wise table, if its shards share moments. Their seconds
                 count as work
    all-reduce   rows · D, the gradient of a copy
    work         lookups, plus bytes of rows and vectors ÷ memory bandwidth: an id reads a row forward and a gradient
                 backward, a distinct row is read and written once, a vector and its gradient once
    memory       rows and their optimizer state; tensors of a batch, see `_shard_batch` and `_sample_cost`

Kinds and their communication are as in ZionEX (arXiv 2104.05158). Ids are assumed to be spread evenly over the rows. Of
n ids in a shard, min(n, rows) count as distinct, which is an upper bound. step.py turns bytes into seconds.

A cost is an array of whole numbers (L, R): a row for each `Load`, such as the bytes of ids, a column for each rank.
Costs are added, and a sum of whole numbers has no rounding, so every rank gets the same result in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from trainer.registry import KINDS
from trainer.scale.sharding.workload import Array, Machine, Table, Workload
from trainer.sharding import Kind, Merge, Placement, Shard

INDEX_BYTES = 4  # bytes of an id and of a length, on the network and in lookups
PER_SECOND = 10**12  # work is in picoseconds
_MAX_WORK = 10.0**14  # picoseconds; more work counts as this, so that no sum overflows
PAGE_BYTES = 4096  # the bytes that a disk reads or writes at least for a row
# Tensors of a batch in the trainer. Two batches exist at a time, because the ids of the next batch are in flight.
_SORTED_ID_BYTES = 20  # of an id when an update sorts the rows: the id, its former position, its bag
_BATCH_ID_BYTES = 2 * 8  # of an id in the batches of the source


class Load(IntEnum):
    """The rows of a cost. The all-to-alls come first, as bytes between the shards of a rank and all samples."""

    IDS = 0
    POOLED = 1
    GRADIENTS = 2
    WORK = 3  # picoseconds
    LOOKUPS = 4  # ids
    REDUCED = 5  # bytes of the gradients of copies, which are all-reduced
    WEIGHTS = 6  # bytes in the memory of the rank, as STATE and BATCH
    STATE = 7
    BATCH = 8
    HOST_MEMORY = 9  # bytes of weights and state in the memory of the host
    DISK = 10
    MERGED = 11  # bytes that the shards of a table exchange with each other and with themselves
    NEAR = 12  # part of MERGED: with other ranks of the host
    FAR = 13  # part of MERGED: with other hosts
    RAIL = 14  # numbers in vectors that go to samples of the rail only (see trainer/scale/host_reduction.py)


MEMORY = Load.WORK + 1  # of `decisive_loads`, the first row of bytes: memory of the rank, of its host, disk
NUM_DECISIVE = 7  # rows of `decisive_loads`
Loads = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """The cost of a table of one kind, on any of several groups of ranks: the shards of each group cost the same."""

    groups: Sequence[tuple[int, ...]]  # the ranks of each of the G groups
    shard_ranks: NDArray[np.int64]  # (G, W) the rank of each of the W shards, by group
    shard_loads: Loads  # (L, W)
    fixed_loads: Loads  # (L, R) the same for all groups: on the ranks of the samples, or of the copies


def layouts(kind: Kind, table: Table, workload: Workload, machine: Machine) -> list[Layout]:
    """Return the layouts of a table, one for each number of ranks that may hold it, and each division by hosts."""
    groups_by_hosts: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for ranks in kind.choices(workload.num_ranks, machine.ranks_per_host):
        first_host = ranks[0] // machine.ranks_per_host
        hosts = tuple(rank // machine.ranks_per_host - first_host for rank in ranks)
        groups_by_hosts.setdefault(hosts, []).append(tuple(ranks))
    return [_layout(kind, groups, table, workload, machine) for groups in groups_by_hosts.values()]


def table_cost(kind: Kind, ranks: Sequence[int], table: Table, workload: Workload, machine: Machine) -> Loads:
    """Return the cost (L, R) of a table of this kind on these ranks."""
    layout = _layout(kind, [tuple(ranks)], table, workload, machine)
    cost = layout.fixed_loads.copy()
    cost[:, layout.shard_ranks[0]] += layout.shard_loads
    return cost


def plan_cost(placements: Sequence[Placement], workload: Workload, machine: Machine) -> Loads:
    """Return the cost (L, R) of all tables at these placements."""
    cost = np.zeros((len(Load), workload.num_ranks), dtype=np.int64)
    for table, placement in zip(workload.tables, placements, strict=True):
        cost += table_cost(KINDS[placement.kind], placement.ranks, table, workload, machine)
    return cost


def decisive_loads(loads: Loads) -> Loads:
    """Return the rows that decide between plans (7, …): all-to-alls, work, and bytes of rank, host and disk."""
    memory = loads[Load.WEIGHTS] + loads[Load.STATE] + loads[Load.BATCH]
    return np.concatenate([loads[: Load.WORK + 1], memory[None], loads[[Load.HOST_MEMORY, Load.DISK]]])


def _layout(
    kind: Kind, groups: Sequence[tuple[int, ...]], table: Table, workload: Workload, machine: Machine
) -> Layout:
    samples = np.array(workload.samples, dtype=np.float64)
    if kind.replicated:
        no_ranks, no_loads = np.empty((len(groups), 0), dtype=np.int64), np.empty((len(Load), 0), dtype=np.int64)
        return Layout(groups, no_ranks, no_loads, _copy_cost(samples, table, workload, machine))
    shards = kind.shards(0, table.rows, table.dim, groups[0])
    position_of = {rank: position for position, rank in enumerate(groups[0])}
    shard_ranks = np.array(groups, dtype=np.int64)[:, [position_of[shard.rank] for shard in shards]]
    on_samples = _sample_cost(samples, shards, table, workload)
    return Layout(groups, shard_ranks, _shard_cost(shards, table, workload, machine), on_samples)


def _shard_cost(shards: Sequence[Shard], table: Table, workload: Workload, machine: Machine) -> Loads:
    """Return the cost of the W shards of a table, which are looked up for the samples of all ranks."""
    num_rows = np.array([shard.num_rows for shard in shards], dtype=np.float64)
    columns = np.array([shard.num_columns for shard in shards], dtype=np.float64)
    row_bytes, num_bags = columns * workload.weight_bytes, float(sum(workload.samples))
    state_bytes = workload.state_bytes(columns)
    num_ids = num_bags * table.pooling * (num_rows / table.rows)
    distinct = np.minimum(num_ids, num_rows)
    rows_read = num_ids * row_bytes + 2 * distinct * (row_bytes + state_bytes)
    vectors = (num_ids + 2 * num_bags) * columns * workload.element_bytes
    memory = num_rows * (row_bytes + state_bytes)
    cost = np.zeros((len(Load), len(num_rows)))
    cost[Load.IDS] = (num_ids + num_bags) * INDEX_BYTES
    vectors_sent = _vectors_sent(shards, workload) * columns
    cost[Load.POOLED] = vectors_sent * workload.forward_bytes
    cost[Load.GRADIENTS] = vectors_sent * workload.backward_bytes
    cost[[Load.MERGED, Load.NEAR, Load.FAR]] = _merge_bytes(shards, distinct, workload, machine)
    if shards[0].merge is Merge.HOST:
        cost[Load.RAIL] = vectors_sent
    far_bytes = cost[Load.FAR] * machine.ranks_per_host
    merging = cost[Load.NEAR] / machine.network_bandwidth + far_bytes / machine.host_bandwidth
    pages = np.maximum(row_bytes + state_bytes, PAGE_BYTES)
    on_disk = 2 * distinct * table.disk_share * pages / machine.disk_bandwidth  # read and written
    work = _work(rows_read * table.memory_share + vectors, rows_read * table.host_share, num_ids, machine)
    cost[Load.WORK] = np.minimum(work + (merging + on_disk) * PER_SECOND, _MAX_WORK)
    cost[Load.LOOKUPS] = num_ids
    cost[Load.WEIGHTS] = num_rows * row_bytes * table.memory_share
    cost[Load.STATE] = num_rows * state_bytes * table.memory_share
    cost[Load.BATCH] = _shard_batch(num_ids, num_bags, distinct, columns, workload)
    cost[Load.HOST_MEMORY] = memory * table.host_share
    cost[Load.DISK] = memory * table.disk_share
    return _whole(cost)


def _vectors_sent(shards: Sequence[Shard], workload: Workload) -> Array:
    """Return the vectors (W,) that each shard exchanges with samples: of all ranks, or of the ranks of its rail."""
    samples, num_shards = workload.samples, len(shards)
    if shards[0].merge is Merge.HOST:
        return np.array([sum(samples[position::num_shards]) for position in range(num_shards)], dtype=np.float64)
    return np.full(num_shards, sum(samples), dtype=np.float64)


def _merge_bytes(shards: Sequence[Shard], distinct: Array, workload: Workload, machine: Machine) -> Array:
    """Return the bytes (3, W) that a shard sends to the shards of its table: to all, to near shards, to far shards.

    Near shards are on other ranks of its host. It receives as many bytes.
    """
    num_shards, nothing = len(shards), np.zeros(len(shards))
    if shards[0].merge is Merge.HOST:  # vectors of all samples forward; gradients of its rail, to each shard, backward
        vector_bytes = shards[0].num_columns * workload.element_bytes
        rail_bytes = _vectors_sent(shards, workload) * vector_bytes
        total_bytes = float(sum(workload.samples) * vector_bytes)
        return np.array([total_bytes + num_shards * rail_bytes, total_bytes + (num_shards - 2) * rail_bytes, nothing])
    if shards[0].merge is Merge.COLUMNS and workload.shared_moments:  # a sum of squares for each row, to each shard
        hosts = np.array([shard.rank // machine.ranks_per_host for shard in shards])
        on_host = (hosts[:, None] == hosts).sum(axis=1)
        squares = distinct * workload.element_bytes
        return np.array([num_shards * squares, (on_host - 1) * squares, (num_shards - on_host) * squares])
    return np.array([nothing] * 3)


def _sample_cost(samples: Array, shards: Sequence[Shard], table: Table, workload: Workload) -> Loads:
    """Return the cost on the ranks of the samples: the memory of a batch.

    It has ids as read and as sent, vectors of all shards as received and as merged, and their gradients.
    """
    columns = table.dim if shards[0].merge is Merge.HOST else sum(shard.num_columns for shard in shards)
    cost = np.zeros((len(Load), len(samples)))
    num_ids = samples * table.pooling
    cost[Load.BATCH] = (num_ids + len(shards) * samples) * (_BATCH_ID_BYTES + 2 * INDEX_BYTES)
    cost[Load.BATCH] += samples * columns * (_sent_bytes(workload) + workload.element_bytes)
    return _whole(cost)


def _copy_cost(samples: Array, table: Table, workload: Workload, machine: Machine) -> Loads:
    """Return the cost of a copy on each rank: lookups of its samples, all-reduce and update of all rows."""
    row_bytes, state_bytes = table.dim * workload.element_bytes, workload.state_bytes(table.dim)
    num_ids, gradient = samples * table.pooling, float(table.rows * row_bytes)
    rows_read = num_ids * row_bytes + 2 * gradient + 2.0 * table.rows * state_bytes
    vectors = (num_ids + 2 * samples) * row_bytes + 2 * gradient
    reduction = machine.all_reduce_seconds(gradient, len(samples))
    cost = np.zeros((len(Load), len(samples)))
    work = _work(rows_read * (1 - table.host_share) + vectors, rows_read * table.host_share, num_ids, machine)
    cost[Load.WORK] = np.minimum(work + reduction * PER_SECOND, _MAX_WORK)
    cost[Load.LOOKUPS] = num_ids
    cost[Load.REDUCED] = gradient
    cost[Load.WEIGHTS] = gradient * (1 - table.host_share)
    cost[Load.STATE] = table.rows * state_bytes * (1 - table.host_share)
    cost[Load.BATCH] = (
        gradient
        + (num_ids + 2 * samples) * row_bytes  # a gradient for each id, vectors and their gradients
        + num_ids * (_BATCH_ID_BYTES + INDEX_BYTES)
    )
    cost[Load.HOST_MEMORY] = table.rows * (row_bytes + state_bytes) * table.host_share
    return _whole(cost)


def _work(rank_bytes: Array, host_bytes: Array, num_ids: Array, machine: Machine) -> Array:
    """Return the picoseconds of lookups and updates, given their bytes in the memory of the rank and of its host."""
    transfers = rank_bytes / machine.memory_bandwidth + host_bytes / machine.host_memory_bandwidth
    seconds: Array = transfers + num_ids * machine.lookup_seconds
    return np.minimum(seconds * PER_SECOND, _MAX_WORK)


def _whole(cost: Array) -> Loads:
    return np.rint(cost).astype(np.int64)


def _shard_batch(num_ids: Array, num_bags: float, distinct: Array, columns: Array, workload: Workload) -> Array:
    """Return the bytes on the rank of the rows: ids, vectors to send, gradients received, gradients merged by row."""
    ids = (num_ids + num_bags) * 2 * INDEX_BYTES + num_ids * _SORTED_ID_BYTES
    return ids + num_bags * columns * _sent_bytes(workload) + distinct * columns * workload.element_bytes


def _sent_bytes(workload: Workload) -> int:
    """Return the bytes that a rank holds for an element of a pooled vector and of its gradient, sent or received.

    A lower precision on the network needs a scaled and a converted copy.
    """
    element, on_network = workload.element_bytes, (workload.forward_bytes, workload.backward_bytes)
    return sum(element + (element + size if size < element else 0) for size in on_network)
