"""Tests that a golden cannot be equal for different values."""

from __future__ import annotations

import itertools

import pytest

from tests.golden.compare import pretty, shortened

FIRST = {"rank": 0, "step": 5, "nics": []}
DIFFERENT = [
    1, 1.0, True, None, [], {}, [{}], [[]], [1, {"rank": 1}], [FIRST], [FIRST, FIRST],
    [FIRST, FIRST | {"step": 5.0}], [FIRST, FIRST | {"step": None}], [FIRST, FIRST | {"nics": [{}]}],
    [FIRST, FIRST | {"host": "a"}], [FIRST, {"rank": 0}], [FIRST, {}],
]  # fmt: skip


def test_texts_of_different_values_differ():
    texts = [pretty(shortened(value)) for value in DIFFERENT]
    assert [pair for pair in itertools.combinations(texts, 2) if pair[0] == pair[1]] == []


@pytest.mark.parametrize("others", [[{"step": 7}], [{"step": 7}, {"host": "<absent>"}]])
def test_further_objects_have_only_the_fields_that_differ_from_the_first(others):
    first = {"host": "a", "step": 5}
    whole = [first, {"host": "a", "step": 7}, {"step": 5}]
    assert shortened({"ranks": whole[: len(others) + 1]}) == {"ranks": [first, *others]}
