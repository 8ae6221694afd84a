"""Tests of the names and labels of metrics, against the golden list."""

import pytest

from tests.places import REPOSITORY
from zmon.metrics import SPECS, STEP_HISTOGRAM, STEP_SECONDS_BOUNDS

GOLDEN = dict(
    line.split(" ", 1) if " " in line else (line, "")
    for line in (REPOSITORY / "tests/golden/metric_names.txt").read_text().splitlines()
    if not line.startswith("#")
)


@pytest.mark.parametrize("name", SPECS)
def test_metric_is_in_the_golden_list_with_its_labels(name):
    """To add a metric, add a line to tests/golden/metric_names.txt."""
    assert name in GOLDEN
    labels = GOLDEN[name].removesuffix(",…")
    assert ",".join(SPECS[name].labels) == labels


def test_histogram_is_in_the_golden_list_and_has_its_bounds():
    assert STEP_HISTOGRAM in GOLDEN
    assert tuple(0.001 * 2**k for k in range(17)) == STEP_SECONDS_BOUNDS


def test_only_counters_end_in_total():
    for name, spec in SPECS.items():
        assert name.endswith("_total") == (spec.kind == "counter"), name


def test_no_metric_has_a_label_that_prometheus_sets():
    assert not {"job", "instance"} & {label for spec in SPECS.values() for label in spec.labels}


def test_every_metric_of_the_golden_list_is_exported():
    assert not GOLDEN.keys() - SPECS.keys() - {STEP_HISTOGRAM}
