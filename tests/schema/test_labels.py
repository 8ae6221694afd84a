"""Tests of the limits of a job's labels."""

from zmon.schema.names import MAX_LABEL_BYTES, MAX_LABELS, bounded_labels


def test_labels_within_the_limits_are_kept():
    labels = {f"name{number}": "x" * (MAX_LABEL_BYTES - 6) for number in range(10, 10 + MAX_LABELS)}
    assert bounded_labels(labels) == labels


def test_surplus_and_long_labels_are_left_out():
    labels = {"long": "x" * MAX_LABEL_BYTES, "wide": "ü" * 63, **{f"n{number}": "v" for number in range(20)}}
    assert list(bounded_labels(labels)) == [f"n{number}" for number in range(MAX_LABELS)]
