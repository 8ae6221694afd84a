"""Tests of the texts that list ranks and numbers."""

from tests.build import rank_state
from zmon.detectors.wording import rank_numbers, ranks_on, ranks_text, verb


def test_short_lists_are_complete_and_long_lists_are_counted():
    ranks = [rank_state(rank) for rank in range(6)]
    assert ranks_on(ranks[:1]) == "rank 0 on node-a"
    assert ranks_on(ranks).endswith("rank 3 on node-a and 2 more")
    assert rank_numbers(range(8)) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert rank_numbers(range(9)) == "0, 1, 2, 3, 4, 5, 6, 7 and 1 more"
    assert rank_numbers(()) == ranks_on([]) == ""


def test_words_agree_with_the_number_of_ranks():
    assert (ranks_text([3]), ranks_text([3, 5])) == ("rank 3", "ranks 3, 5")
    assert [verb(ranks, "has", "have") for ranks in ([], [3], [3, 5])] == ["have", "has", "have"]
