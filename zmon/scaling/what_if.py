"""What would a step take, if? Faster links, fewer bytes on the wire, a faster rank: a model with that changed.

Pure. `KEY=FACTOR`, such as net=2 for links between hosts twice as fast. A larger batch or more ranks is no change of
the model, but another size of it. How tables are sharded is not in it: a plan of the trainer tells that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite

from zmon.errors import UsageError
from zmon.scaling.fit import Model
from zmon.scaling.predict import Link, Links

Change = Callable[[Model, float], Model]


def changed(model: Model, what_ifs: Sequence[str]) -> Model:
    """With all of them. Raises UsageError: one is none."""
    for key, factor in map(factor_of, what_ifs):
        model = CHANGES[key][1](model, factor)
    return model


def factor_of(told: str) -> tuple[str, float]:
    """net=2 → ("net", 2.0). Raises UsageError: it is none."""
    key, _, factor = told.partition("=")
    try:
        number = float(factor)
    except ValueError:
        number = 0.0
    if key not in CHANGES or not isfinite(number) or number <= 0:
        known = ", ".join(f"{name}=FACTOR ({says})" for name, (says, _) in CHANGES.items())
        raise UsageError(f"--what-if {told} cannot be", f"there is {known}", "A factor is above 0, such as 0.5 or 2")
    return key, number


def _net(model: Model, factor: float) -> Model:
    return _links(model, lambda links: replace(links, net=_faster(links.net, factor)))


def _host(model: Model, factor: float) -> Model:
    return _links(model, lambda links: replace(links, host=_faster(links.host, factor)))


def _latency(model: Model, factor: float) -> Model:
    return _links(model, lambda links: replace(links, host=_later(links.host, factor), net=_later(links.net, factor)))


def _wire(model: Model, factor: float) -> Model:
    exchanges = {
        op: replace(e, fixed_bytes=e.fixed_bytes * factor, sample_bytes=e.sample_bytes * factor)
        for op, e in model.work.exchanges.items()
    }
    return replace(model, work=replace(model.work, exchanges=exchanges))


def _own(model: Model, factor: float) -> Model:
    sample_seconds, fixed_seconds = model.work.sample_seconds * factor, model.work.fixed_seconds * factor
    return replace(model, work=replace(model.work, sample_seconds=sample_seconds, fixed_seconds=fixed_seconds))


def _links(model: Model, change: Callable[[Links], Links]) -> Model:
    return replace(model, links={op: change(link) for op, link in model.links.items()})


def _faster(link: Link | None, factor: float) -> Link | None:
    return link and replace(link, bytes_per_second=link.bytes_per_second * factor)


def _later(link: Link | None, factor: float) -> Link | None:
    return link and replace(link, latency_seconds=link.latency_seconds * factor)


CHANGES: dict[str, tuple[str, Change]] = {
    "net": ("bandwidth between hosts", _net),
    "host": ("bandwidth within a host", _host),
    "latency": ("of an exchange", _latency),
    "wire": ("bytes of all exchanges: 0.5 for half precision", _wire),
    "own": ("a rank's own time", _own),
}
