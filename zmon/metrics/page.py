"""Builds a /metrics page. A value of None is left out, because unknown is not zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from zmon.format import plain
from zmon.metrics.names import SPECS, STEP_SECONDS_BOUNDS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Page:
    """A /metrics page while it is built."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def add(self, name: str, value: float | None, *labels: object, extra: dict[str, str] | None = None) -> None:
        """Add one series; the label values are in the order of the spec. A value of None is left out."""
        if value is None:
            return
        spec = SPECS[name]
        family = self.declare(name)
        assert len(labels) == len(spec.labels), name
        sample_name = name if spec.kind == "gauge" else family.name + "_total"
        values = dict(zip(spec.labels, map(str, labels), strict=True))
        family.add_sample(sample_name, {**extra, **values} if extra else values, value)

    def add_each(self, name: str, values: Mapping[Any, float | None], *labels: object) -> None:
        """Add a series for each value; its key, one label value or a tuple of them, follows `labels`."""
        for key, value in values.items():
            self.add(name, value, *labels, *(key if isinstance(key, tuple) else (key,)))

    def declare(self, name: str) -> Metric:
        """Add a metric with help and type. Without a series, it shows that the page has none now, but may have one."""
        family = self._families.get(name)
        if family is None:
            make = CounterMetricFamily if SPECS[name].kind == "counter" else GaugeMetricFamily
            family = self._families[name] = make(name, SPECS[name].help)
        return family

    def add_histogram(self, name: str, help_: str, label: tuple[str, str], counts: Sequence[int], total: float) -> None:
        """Add a histogram over STEP_SECONDS_BOUNDS; `counts` has one count for each bound, and one above all."""
        label_name, label_value = label
        family = self._families.get(name)
        if not isinstance(family, HistogramMetricFamily):
            family = self._families[name] = HistogramMetricFamily(name, help_, labels=[label_name])
        bounds = [*(f"{bound:g}" for bound in STEP_SECONDS_BOUNDS), "+Inf"]
        buckets = list(zip(bounds, accumulate(counts), strict=True))  # the buckets of a histogram are cumulative
        family.add_metric([label_value], buckets, total)

    def leave_out(self, names: Sequence[str], max_series: int) -> int:
        """Remove these metrics, in this order, until the page has at most `max_series`. Return how many it lost."""
        num_series = sum(len(family.samples) for family in self._families.values())
        num_removed = 0
        for name in names:
            if num_series - num_removed <= max_series:
                break
            if name in self._families:
                num_removed += len(self._families[name].samples)
                self._families[name].samples = []
        return num_removed

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, as prometheus_client requires of a collector."""
        yield from self._families.values()

    def render(self) -> bytes:
        """Return the page in the text exposition format."""
        try:
            return generate_latest(self)
        except UnicodeEncodeError:  # a label, such as the name of a device, is not UTF-8; it must not hide the others
            for family in self._families.values():
                family.samples = [
                    sample._replace(labels={name: plain(text) for name, text in sample.labels.items()})
                    for sample in family.samples
                ]
            return generate_latest(self)
