"""The seconds and bytes of a step for each rank, from the loads of all ranks (cost.py).

Data that stays on a rank does not cross the network: among p equal ranks, (p - 1) / p of an all-to-all crosses it. A
rank sends and receives at the same time, so an all-to-all lasts as long as the slower of its two directions. The three
all-to-alls, of ids, pooled vectors and gradients, follow one another.

The vectors of a table-row-wise table stay on their rank, or go to ranks of other hosts. The seconds of these vectors
are an upper bound: they are computed as if the vectors also went to the samples of the other ranks of the host. Bytes
within and between hosts are exact.
"""

from __future__ import annotations

import numpy as np

from trainer.scale.sharding.cost import PER_SECOND, Load, Loads
from trainer.scale.sharding.workload import Array, Machine, Workload

ALL_TO_ALLS = 3


class Step:
    """The network of a job and the samples of its ranks.

    Loads are (…, L, R), for R ranks. Seconds, and the bytes sent and received, need the first four rows only.
    """

    def __init__(self, workload: Workload, machine: Machine) -> None:
        ranks = np.arange(workload.num_ranks)
        samples = np.array(workload.samples)
        self.host = ranks // machine.ranks_per_host  # of each rank
        self.first_ranks = ranks[:: machine.ranks_per_host]  # of each host
        self.near_byte_seconds = 1 / machine.network_bandwidth  # to a rank of the same host
        self.far_byte_seconds = machine.ranks_per_host / machine.host_bandwidth  # to a rank of another host
        total = max(1, sum(workload.samples))
        self.share = samples / total  # of the samples of a step, on each rank
        self.host_share = np.add.reduceat(samples, self.first_ranks)[self.host] / total  # on the host of each rank
        self.position = ranks % machine.ranks_per_host  # in its host; ranks with the same position form a rail
        rail_samples = np.bincount(self.position, samples)[self.position]
        self.rail_share = samples / np.maximum(1, rail_samples)  # of the samples of its rail, on each rank
        # of each all-to-all, the bytes of a number in a vector
        self.vector_bytes = np.array([[0], [workload.forward_bytes], [workload.backward_bytes]])
        # seconds of a byte that a shard exchanges with the samples of all ranks
        near_seconds = self.near_byte_seconds * (self.host_share - self.share)
        self.byte_seconds = near_seconds + self.far_byte_seconds * (1 - self.host_share)

    def seconds(self, loads: Loads) -> Array:
        """Return the seconds of a step (…, R): lookups, updates, all-reduce of copies, and the all-to-alls."""
        ids, pooled, gradients = np.moveaxis(self.exchanges(loads), -2, 0)
        seconds: Array = loads[..., Load.WORK, :] / PER_SECOND + (ids + pooled + gradients)
        return seconds

    def exchanges(self, loads: Loads) -> Array:
        """Return the seconds of the three all-to-alls (…, 3, R)."""
        return np.maximum(loads[..., :ALL_TO_ALLS, :] * self.byte_seconds, self.sample_seconds(loads))

    def sent_and_received(self, loads: Loads) -> tuple[Array, Array]:
        """Return the bytes that a rank sends and receives in the all-to-alls (3, R), including those to itself."""
        sample_bytes = self.share * self._totals(loads[:ALL_TO_ALLS])[1]
        return self._directions(loads[:ALL_TO_ALLS].astype(np.float64), sample_bytes)

    def within_hosts(self, loads: Loads) -> Array:
        """Return the bytes that a rank sends to other ranks of its host in the all-to-alls (3, R)."""
        to_all, _ = self._by_reach(loads)
        host_bytes, _ = self._totals(to_all)
        sent, _ = self._directions(to_all * (self.host_share - self.share), self.share * (host_bytes - to_all))
        return sent

    def crossing_hosts(self, loads: Loads) -> Array:
        """Return the bytes that a rank sends to other hosts in the all-to-alls (3, R)."""
        to_all, to_rail = self._by_reach(loads)
        host_bytes, total_bytes = self._totals(to_all)
        rail_bytes = np.array([np.bincount(self.position, row)[self.position] for row in to_rail])
        from_shards = to_all * (1 - self.host_share) + to_rail * (1 - self.rail_share)
        sample_bytes = self.share * (total_bytes - host_bytes) + self.rail_share * (rail_bytes - to_rail)
        sent, _ = self._directions(from_shards, sample_bytes)
        return sent

    def sample_seconds(self, loads: Loads) -> Array:
        """Return the seconds of the bytes that the samples of a rank exchange with shards on other ranks (…, 3, R)."""
        exchanged = loads[..., :ALL_TO_ALLS, :]
        host_bytes, total_bytes = self._totals(exchanged)
        near_seconds = self.near_byte_seconds * (host_bytes - exchanged)
        seconds: Array = self.share * (near_seconds + self.far_byte_seconds * (total_bytes - host_bytes))
        return seconds

    def _by_reach(self, loads: Loads) -> tuple[Loads, Loads]:
        """Return the bytes that shards exchange with the samples of all ranks, and of their rails only (3, R)."""
        to_rail = self.vector_bytes * loads[Load.RAIL]
        return loads[:ALL_TO_ALLS] - to_rail, to_rail

    def _totals(self, exchanged: Loads) -> tuple[Loads, Loads]:
        """Return the bytes of all shards of a rank's host, and of all shards (…, 3, R or 1)."""
        by_host = np.add.reduceat(exchanged, self.first_ranks, axis=-1)
        return by_host[..., self.host], by_host.sum(axis=-1, keepdims=True)

    def _directions(self, shard_bytes: Array, sample_bytes: Array) -> tuple[Array, Array]:
        """Return what is sent and received: ids and gradients go from samples to shards, pooled vectors back."""
        sent, received = sample_bytes.copy(), shard_bytes.copy()
        sent[Load.POOLED], received[Load.POOLED] = shard_bytes[Load.POOLED], sample_bytes[Load.POOLED]
        return sent, received
