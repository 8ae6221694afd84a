"""What /metrics says of a host: its hardware, as far as it was read. Where each value stands is said in `names`."""

from __future__ import annotations

from typing import Any

from zmon.metrics.names import SPECS
from zmon.metrics.page import Page
from zmon.metrics.spec import Subject
from zmon.schema.host import HostSample


def add_host(page: Page, host: str, sample: HostSample) -> None:
    """Add every hardware metric of one host."""
    rows: dict[Subject[Any], list[tuple[Any, tuple[object, ...]]]] = {}  # things with their labels
    for name, spec in SPECS.items():
        subject = spec.subject
        if subject is None:
            continue
        if subject not in rows:
            rows[subject] = [(thing, (host, *subject.named(thing))) for thing in subject.things(sample)]
        for thing, labels in rows[subject]:
            if not spec.by:
                page.add(name, spec.read(thing), *labels)
                continue
            for label, value in spec.read(thing).items():
                page.add(name, value, *labels, label)
