"""The ids of a batch on their way to the ranks that hold their rows."""

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
from trainer.world import World


class IdExchange:
    """The ids of a batch in flight. First the lengths of the bags are sent, then the ids as rows of the weights."""

    def __init__(
        self,
        routed: Routed,
        groups: Sequence[Sequence[Group]],
        world: World,
        samples: Sequence[int],
        row_offsets: Tensor | None,
        cpu_ranks: dist.ProcessGroup | None,
    ) -> None:
        """`groups` has the groups of each rank, `samples` has the number of samples of each rank.

        `row_offsets` (G,) are added to the rows of each bag to receive. `cpu_ranks` is the process group that exchanges
        the row counts. Without it, the row counts are sums of the lengths received.
        """
        local_groups = groups[world.rank]
        num_shards = [sum(len(group.shards) for group in groups_of_rank) for groups_of_rank in groups]  # of each rank
        self._rows_to_send = to_device(routed.rows, world.device)
        self._row_counts_to_send = routed.num_rows  # by rank, then by group
        self._row_offsets = row_offsets
        self._num_local_groups = len(local_groups)
        self._num_counts_to_send = [len(groups_of_rank) for groups_of_rank in groups]
        self._num_counts_to_receive = [len(local_groups)] * len(samples)
        # By rank of the samples, then by local group: a rank sends one bag for each shard and sample.
        self._num_bags_to_receive = [len(group.shards) * size for size in samples for group in local_groups]
        self._row_counts_exchange: AllToAll | None = None
        if cpu_ranks is not None:
            to_send, to_receive = self._num_counts_to_send, self._num_counts_to_receive
            self._row_counts_exchange = AllToAll(routed.num_rows, to_send, to_receive, group=cpu_ranks)
        lengths_to_send = [number * samples[world.rank] for number in num_shards]
        lengths_to_receive = [num_shards[world.rank] * size for size in samples]
        self._lengths_exchange = AllToAll(to_device(routed.lengths, world.device), lengths_to_send, lengths_to_receive)
        self._rows_exchange: AllToAll | None = None  # set by `send_rows`
        self._lengths: Tensor = routed.lengths[:0]  # of the bags received, set by `send_rows`
        self._row_counts: list[int] = []  # of rows to receive, by rank, then by local group; set by `send_rows`
        self._bags: list[Bags] | None = None  # set by `wait`

    def send_rows(self) -> None:
        """Wait for the numbers of rows to receive. Then start to send the rows. A second call does nothing."""
        if self._rows_exchange is not None:
            return
        self._lengths = self._lengths_exchange.wait()
        if self._row_counts_exchange is not None:
            self._row_counts = self._row_counts_exchange.wait().tolist()
        else:
            self._row_counts = [int(lengths.sum()) for lengths in self._lengths.split(self._num_bags_to_receive)]
        to_send = _sum_runs(self._row_counts_to_send.tolist(), self._num_counts_to_send)
        to_receive = _sum_runs(self._row_counts, self._num_counts_to_receive)
        self._rows_exchange = AllToAll(self._rows_to_send, to_send, to_receive)

    def wait(self) -> list[Bags]:
        """Wait for the bags that all ranks look up in each local group. A second call returns the same bags."""
        if self._bags is None:
            self.send_rows()
            self._bags = self._receive()
        return self._bags

    def _receive(self) -> list[Bags]:
        """Wait for the rows, and order all bags by local group."""
        assert self._rows_exchange is not None
        bags = Bags(self._rows_exchange.wait(), self._lengths)
        if self._row_offsets is not None:
            bags = bags.shift_rows(self._row_offsets)
        num_groups = self._num_local_groups
        if num_groups <= 1:
            return [bags][:num_groups]
        rows, lengths = bags.rows.split(self._row_counts), bags.lengths.split(self._num_bags_to_receive)
        return [Bags(torch.cat(rows[i::num_groups]), torch.cat(lengths[i::num_groups])) for i in range(num_groups)]


def _sum_runs(numbers: Sequence[int], sizes: Iterable[int]) -> list[int]:
    """Return the sum of each run of consecutive numbers; `sizes` has the length of each run."""
    return [sum(numbers[begin:end]) for begin, end in pairwise(accumulate(sizes, initial=0))]
