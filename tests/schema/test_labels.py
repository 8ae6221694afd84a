"""Tests of the limits of a job's labels."""

from zmon.schema.names import MAX_LABEL_BYTES, MAX_LABELS, bounded_labels


def test_labels_within_the_limits_are_kept():
    names = [f"name{number}" for number in range(10, 10 + MAX_LABELS)]
    labels = {name: "x" * (MAX_LABEL_BYTES - len(name)) for name in names}
    assert bounded_labels(labels) == labels


def test_surplus_and_long_labels_are_left_out():
    too_long = {"long": "x" * MAX_LABEL_BYTES, "wide": "ü" * (MAX_LABEL_BYTES // 2 - 1)}  # ü has two bytes
    names = [f"n{number}" for number in range(MAX_LABELS + 4)]
    assert list(bounded_labels(too_long | dict.fromkeys(names, "v"))) == names[:MAX_LABELS]
