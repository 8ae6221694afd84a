"""Tests of which of many ranks began to end first: the same answer as comparing each with each."""

import random

from tests.build import dead, words
from zmon.job.beginnings import Beginnings
from zmon.job.deaths import precedes


def random_rank(number, chance):
    last_words = words("exception", "ValueError", "bad", time=chance.choice((100.0, 100.2, 101.0)))
    with_words = chance.random() < 0.6
    return dead(
        number,
        chance.choice((1.0, 1.2, 2.0, 3.0)),
        host=f"node-{chance.randrange(3)}",
        last_words=last_words if with_words else None,
        last_words_seconds=chance.choice((None, 1.1, 2.5)) if with_words else None,
    )


def test_answer_equals_that_of_comparing_each_pair():
    chance = random.Random(22)
    for _ in range(500):
        ranks = [random_rank(number, chance) for number in range(chance.randrange(1, 7))]
        together = chance.choice((0.0, 0.3, 1.0))
        for state in ranks:
            expected = any(precedes(other, state, together) for other in ranks)
            assert Beginnings(ranks).precede(state, together) is expected


def test_nobody_precedes_without_ranks():
    assert not Beginnings(()).precede(dead(0), 0.0)
