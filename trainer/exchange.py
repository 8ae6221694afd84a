"""The all-to-alls between the rank that has a sample and the rank that has a table.

    samples' ranks ── ids ──────────────▶ tables' ranks
    samples' ranks ◀─ pooled vectors ──── tables' ranks
    samples' ranks ── their gradients ──▶ tables' ranks

Every rank calls the same three in the same order in every step. zmon sees them by itself.
Shapes: R ranks, F features (one table each), T tables owned here, B samples per rank, D columns.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.batch import Batch
from trainer.embedding import Placement


class Exchange:
    """Split sizes and orders of the three, fixed by the placement and the size of a rank's batch."""

    def __init__(self, placement: Placement, rank: int, local_batch: int) -> None:
        by_owner = [table for tables in placement for table in tables]
        self.by_owner = torch.tensor(by_owner)  # feature at each place, features of one owner side by side
        self.by_feature = torch.argsort(self.by_owner)  # place of each feature: the way back
        self.owners = len(placement)
        self.bags_of = [len(tables) * local_batch for tables in placement]  # of one rank's samples, by owner
        self.bags_here = [self.bags_of[rank]] * self.owners  # of the tables here, by samples' rank
        self.local_batch = local_batch

    def ids(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Index all-to-all: ids and bag lengths of all ranks' samples for the tables here: (N,), (R, T, B).

        Two calls, because nobody knows how many ids will come before the lengths have.
        """
        ids_of_feature = batch.ids.split(batch.lengths.sum(dim=1).tolist())
        ids = torch.cat([ids_of_feature[feature] for feature in self.by_owner.tolist()])
        lengths = batch.lengths[self.by_owner].reshape(-1)
        lengths_here = _all_to_all(lengths, self.bags_of, self.bags_here)
        to_send = [int(bags.sum()) for bags in lengths.split(self.bags_of)]
        to_receive = [int(bags.sum()) for bags in lengths_here.split(self.bags_here)]
        ids_here = _all_to_all(ids, to_send, to_receive)
        return ids_here, lengths_here.view(self.owners, -1, self.local_batch)

    def pooled(self, pooled_here: Tensor) -> Tensor:
        """Pooled-embedding all-to-all: (R·T·B, D) bags of the tables here → (B, F, D) of the samples here."""
        bags = _all_to_all(pooled_here, self.bags_here, self.bags_of)
        return bags.view(-1, self.local_batch, bags.shape[1])[self.by_feature].transpose(0, 1)

    def gradients(self, gradient: Tensor) -> Tensor:
        """Gradient all-to-all, the same way again: (B, F, D) of the samples here → (R·T·B, D) bags here."""
        bags = gradient.transpose(0, 1)[self.by_owner].reshape(-1, gradient.shape[2])
        return _all_to_all(bags, self.bags_of, self.bags_here)


def _all_to_all(mine: Tensor, to_send: list[int], to_receive: list[int]) -> Tensor:
    """Split along the first dimension among the ranks; what they sent, joined by sender."""
    theirs = mine.new_empty(sum(to_receive), *mine.shape[1:])
    dist.all_to_all_single(theirs, mine, to_receive, to_send)
    return theirs
