"""The page is, byte for byte, what prometheus_client would write."""

import math

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from zmon.metrics import SPECS, STEP_HISTOGRAM, STEP_SECONDS_BOUNDS, Page

VALUES = (0, 1, -3.5, 1e-9, 1 / 3, 12345678, 123456789.25, 2**60, 1e22, math.nan, math.inf, -math.inf)
TEXTS = ("node-a", "", 'say "no"', "back\\slash", "two\nlines", "é漢", "a,b={c}")


class Families:
    """What a registry holds."""

    def __init__(self, *families):
        self.families = families

    def collect(self):
        return self.families


def label_values(spec, n):
    return [TEXTS[(n + at) % len(TEXTS)] for at in range(len(spec.labels))]


@pytest.mark.parametrize("name", SPECS)
def test_every_metric_reads_as_prometheus_client_would_write_it(name):
    spec, page = SPECS[name], Page()
    family = (CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily)(name, spec.help, labels=spec.labels)
    for n, value in enumerate(VALUES):
        page.add(name, value, *label_values(spec, n))
        family.add_metric(label_values(spec, n), value)
    assert page.render() == generate_latest(Families(family))


def test_histogram_reads_as_prometheus_client_would_write_it():
    counts, page = [*range(len(STEP_SECONDS_BOUNDS)), 7], Page()
    page.add_histogram(STEP_HISTOGRAM, "Duration.", ("job_id", 'a"b'), counts, 12.5)
    bounds = [*(f"{bound:g}" for bound in STEP_SECONDS_BOUNDS), "+Inf"]
    family = HistogramMetricFamily(STEP_HISTOGRAM, "Duration.", labels=["job_id"])
    family.add_metric(['a"b'], [(bound, sum(counts[: at + 1])) for at, bound in enumerate(bounds)], 12.5)
    assert page.render() == generate_latest(Families(family))


def test_free_labels_stand_among_the_others_and_never_in_the_place_of_one():
    page = Page()
    page.add("zmon_job_info", 1, "job", 8, extra={"job_id": "another", "owner": "ann"})
    assert b'zmon_job_info{job_id="job",owner="ann",world_size="8"} 1.0\n' in page.render()


def test_text_that_is_no_unicode_spoils_no_page():
    page = Page()
    page.add("zmon_host_mount_operations_total", 1, "node-a", "/mnt/\udcff", "nfs")
    (family,) = text_string_to_metric_families(page.render().decode())
    assert family.samples[0].labels["mount"] == "/mnt/?"
