"""Adds the hardware metrics of a host to a /metrics page. `zmon/metrics/names.py` has the value of each metric."""

from __future__ import annotations

from typing import Any

from zmon.metrics.names import SPECS
from zmon.metrics.page import Page
from zmon.metrics.spec import Subject
from zmon.schema.host import HostSample


def add_host(page: Page, host: str, sample: HostSample) -> None:
    """Add every hardware metric of one host; values that were not read have no series."""
    rows: dict[Subject[Any], list[tuple[Any, tuple[object, ...]]]] = {}  # items with their label values
    for name, spec in SPECS.items():
        subject = spec.subject
        if subject is None:
            continue
        if subject not in rows:
            rows[subject] = [(item, (host, *subject.label_values(item))) for item in subject.items(sample)]
        for item, labels in rows[subject]:
            if not spec.by:
                page.add(name, spec.read(item), *labels)
                continue
            for label, value in spec.read(item).items():
                page.add(name, value, *labels, label)
