"""Tests of the order of vectors in the all-to-alls: it is restored on arrival, and gradients have the same order."""

import pytest
import torch

from trainer.registry import KINDS
from trainer.sharding import groups_of, in_order
from trainer.vectors import Arrivals, Departures

CPU, NUM_RANKS, SAMPLES = torch.device("cpu"), 4, (3, 2, 0, 4)
PLANS = {  # kinds and dimensions of the tables
    "one width": (("table_wise", "row_wise", "data_parallel"), (4, 4, 4)),
    "columns": (("column_wise", "table_wise", "column_wise"), (4, 4, 6)),
    "several widths": (("table_wise", "row_wise", "data_parallel", "column_wise", "data_parallel"), (1, 4, 3, 6, 4)),
    "replicated only": (("data_parallel", "data_parallel"), (2, 3)),
}


def groups(kinds, dims):
    """Return the groups of each rank."""
    shards = (
        shard
        for table, (kind, dim) in enumerate(zip(kinds, dims, strict=True))
        if not KINDS[kind].replicated
        for shard in KINDS[kind].shards(table, 10, dim, KINDS[kind].choices(NUM_RANKS, 2)[-1])
    )
    return groups_of(in_order(shards), NUM_RANKS)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("num_samples", [0, 3])
def test_split_gradients_are_the_gradients_of_the_merged_vectors(name: str, num_samples: int) -> None:
    kinds, dims = PLANS[name]
    replicated = [table for table, kind in enumerate(kinds) if KINDS[kind].replicated]
    arrivals = Arrivals(groups(kinds, dims), replicated, dims, CPU)
    flat = torch.randn(sum(arrivals.sizes(num_samples)), dtype=torch.float64, requires_grad=True)
    replicated_vectors = {
        width: torch.randn(
            num_samples * sum(dims[table] == width for table in replicated),
            width,
            dtype=torch.float64,
            requires_grad=True,
        )
        for width in {dims[table] for table in replicated}
    }
    merged = arrivals.merge(flat, replicated_vectors)
    assert arrivals.by_sample(merged).flatten(1).shape == (num_samples, sum(dims))
    gradient = torch.randn_like(merged)
    expected = torch.autograd.grad(merged, [flat, *replicated_vectors.values()], gradient, allow_unused=True)
    flat_gradient, back = arrivals.split(gradient)
    assert torch.equal(flat_gradient, torch.zeros(0, dtype=torch.float64) if expected[0] is None else expected[0])
    for width, exact in zip(replicated_vectors, expected[1:], strict=True):
        assert torch.equal(back[width], exact)


@pytest.mark.parametrize("name", PLANS)
def test_vectors_of_each_group_are_the_same_after_they_were_flattened(name: str) -> None:
    for rank_groups in groups(*PLANS[name]):
        # The ranks whose samples get the vectors of each group: two groups reach half of the ranks, the others all.
        reached = [range(NUM_RANKS), (0, 2), (1, 3)][: len(rank_groups)] + [range(NUM_RANKS)] * (len(rank_groups) - 3)
        departures = Departures(rank_groups, reached)
        vectors = [
            torch.randn(len(group.units) * sum(SAMPLES[rank] for rank in ranks), group.width)
            for group, ranks in zip(rank_groups, reached, strict=True)
        ]
        flat = departures.flatten(vectors, SAMPLES, torch.empty(0))
        assert len(flat) == sum(departures.sizes(SAMPLES))
        for expected, actual in zip(vectors, departures.by_group(flat, SAMPLES), strict=True):
            assert torch.equal(expected, actual)
