"""Tests of the names and labels of metrics, against the golden list."""

from tests.places import REPOSITORY
from zmon.metrics import SPECS, STEP_HISTOGRAM

GOLDEN = dict(
    line.split(" ", 1) if " " in line else (line, "")
    for line in (REPOSITORY / "tests/golden/metric_names.txt").read_text().splitlines()
    if not line.startswith("#")
)


def test_metrics_are_those_of_the_golden_list():
    """To add a metric, add a line to tests/golden/metric_names.txt."""
    assert GOLDEN.keys() == SPECS.keys() | {STEP_HISTOGRAM}


def test_labels_are_those_of_the_golden_list():
    labels = {name: ",".join(spec.labels) for name, spec in SPECS.items()}
    assert labels == {name: GOLDEN[name].removesuffix(",…") for name in SPECS}


def test_no_metric_has_a_label_that_prometheus_sets():
    assert not {"job", "instance"} & {label for spec in SPECS.values() for label in spec.labels}
