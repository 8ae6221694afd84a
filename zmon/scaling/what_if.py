"""Predictions with something changed (what-ifs), such as faster links, fewer bytes on the wire, or a faster rank.

Pure. A what-if is `KEY=FACTOR`, such as net=2 for links between hosts that are twice as fast. A larger batch or more
ranks are another size of the same model, not a what-if. The model does not include the sharding of tables; a plan of
the trainer does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite

from zmon.errors import UsageError
from zmon.scaling.fit import Model
from zmon.scaling.predict import Link, Links

Change = Callable[[Model, float], Model]


def with_what_ifs(model: Model, what_ifs: Sequence[str]) -> Model:
    """Return the model with all what-ifs applied. Raises UsageError for an invalid what-if."""
    for key, factor in map(parse_what_if, what_ifs):
        model = CHANGES[key][1](model, factor)
    return model


def parse_what_if(what_if: str) -> tuple[str, float]:
    """Parse net=2 into ("net", 2.0). Raises UsageError if the key or the factor is invalid."""
    key, _, factor = what_if.partition("=")
    try:
        number = float(factor)
    except ValueError:
        number = 0.0
    if key not in CHANGES or not isfinite(number) or number <= 0:
        choices = ", ".join(f"{name}=FACTOR ({meaning})" for name, (meaning, _) in CHANGES.items())
        raise UsageError(
            f"--what-if {what_if} is not valid", f"use one of {choices}", "A factor is above 0, such as 0.5 or 2"
        )
    return key, number


def _net(model: Model, factor: float) -> Model:
    return _links(model, lambda links: replace(links, net=_faster(links.net, factor)))


def _host(model: Model, factor: float) -> Model:
    return _links(model, lambda links: replace(links, host=_faster(links.host, factor)))


def _latency(model: Model, factor: float) -> Model:
    return _links(model, lambda links: replace(links, host=_slower(links.host, factor), net=_slower(links.net, factor)))


def _wire(model: Model, factor: float) -> Model:
    exchanges = {
        op: replace(e, fixed_bytes=e.fixed_bytes * factor, sample_bytes=e.sample_bytes * factor)
        for op, e in model.work.exchanges.items()
    }
    return replace(model, work=replace(model.work, exchanges=exchanges))


def _self_time(model: Model, factor: float) -> Model:
    sample_seconds, fixed_seconds = model.work.sample_seconds * factor, model.work.fixed_seconds * factor
    return replace(model, work=replace(model.work, sample_seconds=sample_seconds, fixed_seconds=fixed_seconds))


def _links(model: Model, change: Callable[[Links], Links]) -> Model:
    return replace(model, links={op: change(link) for op, link in model.links.items()})


def _faster(link: Link | None, factor: float) -> Link | None:
    return link and replace(link, bytes_per_second=link.bytes_per_second * factor)


def _slower(link: Link | None, factor: float) -> Link | None:
    return link and replace(link, latency_seconds=link.latency_seconds * factor)


CHANGES: dict[str, tuple[str, Change]] = {
    "net": ("bandwidth between hosts", _net),
    "host": ("bandwidth within a host", _host),
    "latency": ("latency of an exchange", _latency),
    "wire": ("bytes of all exchanges; 0.5 for half precision", _wire),
    "own": ("self time of a rank", _self_time),
}
