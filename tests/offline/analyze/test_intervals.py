"""Tests of the arithmetic of intervals: no moment counts twice."""

import random

import pytest

from zmon.offline.analyze.intervals import partition, subtract, total, union, within


def test_partition_gives_each_moment_to_the_first_part_that_has_it():
    assert partition([[(0, 2)], [(1, 4), (3, 5)], [(0, 6)]]) == [2, 3, 1]
    assert partition([[], [(1, 2)]]) == [0, 1]


def test_within_cuts_at_both_ends():
    assert within([(0, 4), (5, 6), (7, 9)], 3, 8) == [(3, 4), (5, 6), (7, 8)]


@pytest.mark.parametrize("seed", range(20))
def test_parts_sum_to_their_union_and_subtraction_completes_it(seed):
    chance = random.Random(seed)

    def interval():
        begin = chance.randrange(40)
        return begin, begin + chance.randrange(9)

    a, b, c = parts = [[interval() for _ in range(chance.randrange(8))] for _ in range(3)]
    assert sum(partition(parts)) == total(union([*a, *b, *c]))
    assert total(subtract(a, b)) == total(union([*a, *b])) - total(union(b))
