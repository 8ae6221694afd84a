"""The ids of a batch on their way to the ranks that hold their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.all_to_all import AllToAll
from trainer.batch import to_device
from trainer.kernel import Bags
from trainer.routing import Routed
from trainer.sharding import Group


class IdExchange:
    """The ids of a batch in flight: first the number of ids in each bag, then the ids, as rows of the local weights."""

    def __init__(
        self,
        routed: Routed,
        groups: Sequence[Sequence[Group]],
        rank: int,
        samples: Sequence[int],
        row_offsets: Tensor | None,
        device: torch.device,
        cpus: dist.ProcessGroup | None,
    ) -> None:
        """`groups` has the groups of each rank, `samples` the number of its samples.

        `row_offsets` (G,) are added to the rows of bags. `cpus` is the process group that exchanges the numbers of
        rows. Without it, they are sums of the lengths received.
        """
        self._row_offsets, self._num_rows = row_offsets, routed.num_rows
        self._num_groups = [len(groups_of_rank) for groups_of_rank in groups]
        self._num_local = len(groups[rank])  # groups of this rank
        self._num_received = [self._num_local] * len(samples)  # numbers of rows that each rank sends to this one
        num_shards = [[len(group.shards) for group in groups_of_rank] for groups_of_rank in groups]
        # The bags to receive, by rank of the samples, then by group: one for each shard and sample.
        self._num_bags = [number * size for size in samples for number in num_shards[rank]]
        self._rows = to_device(routed.rows, device)
        self._numbers = AllToAll(routed.num_rows, self._num_groups, self._num_received, group=cpus) if cpus else None
        to_send = [sum(numbers) * samples[rank] for numbers in num_shards]
        to_receive = [sum(num_shards[rank]) * size for size in samples]
        self._lengths_exchange = AllToAll(to_device(routed.lengths, device), to_send, to_receive)
        self._rows_exchange: AllToAll | None = None
        # Set by `send_rows`: the lengths of the bags received, and the numbers of rows by rank and local group.
        self._lengths: Tensor
        self._received: Tensor

    def send_rows(self) -> None:
        """Wait for the numbers of rows to receive. Then start to send the rows."""
        if self._rows_exchange is None:
            self._lengths = self._lengths_exchange.wait()
            self._received = self._numbers.wait() if self._numbers else _count_rows(self._lengths, self._num_bags)
            to_send = _add_up(self._num_rows.tolist(), self._num_groups)
            to_receive = _add_up(self._received.tolist(), self._num_received)
            self._rows_exchange = AllToAll(self._rows, to_send, to_receive)

    def wait(self) -> list[Bags]:
        """Wait for the bags that all ranks look up in each local group."""
        self.send_rows()
        assert self._rows_exchange is not None
        bags = Bags(self._rows_exchange.wait(), self._lengths)
        if self._row_offsets is not None:
            bags = bags.shift_rows(self._row_offsets)
        if self._num_local <= 1:
            return [bags][: self._num_local]
        rows, lengths = bags.rows.split(self._received.tolist()), bags.lengths.split(self._num_bags)
        return [
            Bags(torch.cat(rows[group :: self._num_local]), torch.cat(lengths[group :: self._num_local]))
            for group in range(self._num_local)
        ]


def _count_rows(lengths: Tensor, num_bags: list[int]) -> Tensor:
    """Return the number of rows of each rank and group, whose numbers of bags are `num_bags`."""
    if not num_bags:
        return torch.zeros(0, dtype=torch.int64)
    return torch.stack([bags.sum() for bags in lengths.split(num_bags)])


def _add_up(numbers: Sequence[int], sizes: Iterable[int]) -> list[int]:
    """Return the sums of consecutive parts of the numbers; `sizes` has the length of each part."""
    return [sum(numbers[begin:end]) for begin, end in pairwise(accumulate(sizes, initial=0))]
