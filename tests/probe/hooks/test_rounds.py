"""Tests of the number of training steps in jobs whose optimizers step one after the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmon.probe.hooks.steps import Rounds


class FakeTraining:
    """A job whose optimizers are letters; counts steps as `zmon.probe.hooks.steps` does."""

    def __init__(self):
        self.rounds = Rounds()
        self.steps = 0

    def run(self, order):
        """Run the steps of the optimizers in this order; a bar is a change to evaluation."""
        for letter in order:
            if letter == "|":
                self.steps += self.rounds.is_open
                self.rounds.end()
                continue
            self.steps += self.rounds.begin_update(ord(letter))
            self.steps += self.rounds.end_update(ord(letter))
        return self

    @property
    def total(self):
        """End the last round; return the number of steps."""
        return self.run("|").steps


CASES = {  # the order in which the optimizers step → the number of training steps
    "single optimizer": ("a" * 10, 10),
    "two always": ("ab" * 10, 10),
    "five of the critic, then the generator": ("dddddg" * 10, 50),
    "one of three that steps every fifth time": ("ab" * 4 + "abc" + "ab" * 4 + "abc" + "ab", 11),
    "first of two skipped once": ("ab" * 5 + "b" + "ab" * 5, 11),
    "last of two skipped once": ("ab" * 5 + "a" + "ab" * 5, 11),
    "both skipped once": ("ab" * 10, 10),
    "last of two skipped in the first round": ("a" + "ab" * 5, 6),
    "first of two skipped in the first round": ("b" + "ab" * 5, 6),
    "last of two skipped in the last round": ("ab" * 5 + "a", 6),
    "third that first steps in the middle": ("ab" * 5 + "acb" * 5, 10),
    "third that first steps at the end": ("ab" * 5 + "abc" * 5, 10),
    "third that first steps at the beginning": ("ab" * 5 + "cab" * 5, 10),
    "third that is gone later": ("abc" * 5 + "ab" * 5, 10),
    "two phases, each with its own": ("a" * 10 + "b" * 10, 20),
    "two phases, and back": ("a" * 10 + "b" * 10 + "a" * 10, 30),
    "two phases with an evaluation between": ("a" * 10 + "|" + "b" * 10, 20),
    "recreated after each epoch": ("ab" * 5 + "|" + "cd" * 5 + "|" + "ef" * 5, 15),
    "alternating, which is a round of two": ("ab" * 20, 20),
    "evaluation after each step of two": ("ab|" * 10, 10),
    "evaluation in the middle of a round": ("ab" * 5 + "a|" + "ab" * 5, 11),
}


@pytest.mark.parametrize("case", CASES)
def test_number_of_steps_is_exact_for_each_order_of_optimizers(case):
    order, steps = CASES[case]
    assert FakeTraining().run(order).total == steps


def test_round_of_a_hundred_optimizers_is_a_single_step():
    letters = "".join(map(chr, range(1000, 1100)))
    assert FakeTraining().run(letters * 20).total == 20


def test_step_of_a_single_optimizer_ends_at_once():
    training = FakeTraining().run("a")
    assert (training.steps, training.rounds.is_open) == (1, False)


def test_step_of_two_optimizers_ends_with_the_second_optimizer():
    training = FakeTraining().run("abab")
    assert training.steps == 2
    assert training.run("a").steps == 2
    assert training.rounds.is_open
    assert training.run("b").steps == 3
    training.run("bab")  # the first one is skipped once, and the round still ends with the second
    assert (training.steps, training.rounds.is_open) == (5, False)


@given(number=st.integers(1, 8), times=st.integers(1, 12))
def test_optimizers_in_a_fixed_order_are_a_single_step_per_round(number, times):
    letters = "".join(map(chr, range(65, 65 + number)))
    assert FakeTraining().run(letters * times).total == times


@given(order=st.lists(st.sampled_from("abc"), max_size=40))
def test_number_of_steps_is_bounded_by_the_updates_in_any_order(order):
    total = FakeTraining().run(order).total
    assert total <= len(order)
    assert total >= max((order.count(letter) for letter in "abc"), default=0) - 1
