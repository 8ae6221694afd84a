"""Predictions with something changed (what-ifs), such as faster links, fewer bytes on the wire, or a faster rank.

Pure. A what-if is `KEY=FACTOR`, such as net=2 for links between hosts that are twice as fast. A larger batch or more
ranks are another size of the same model, not a what-if. The model does not include the sharding of tables; a plan of
the trainer does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import NamedTuple

from zmon.errors import UsageError
from zmon.scaling.fit import Model
from zmon.scaling.predict import Links


class ModelChange(NamedTuple):
    """A change of a model by a factor."""

    meaning: str
    apply: Callable[[Model, float], Model]


def with_what_ifs(model: Model, what_ifs: Sequence[str]) -> Model:
    """Return the model with all what-ifs applied. Raises UsageError for an invalid what-if."""
    for key, factor in map(parse_what_if, what_ifs):
        model = CHANGES[key].apply(model, factor)
    return model


def parse_what_if(what_if: str) -> tuple[str, float]:
    """Parse net=2 into ("net", 2.0). Raises UsageError if the key or the factor is invalid."""
    key, _, factor = what_if.partition("=")
    try:
        number = float(factor)
    except ValueError:
        number = 0.0
    if key not in CHANGES or not isfinite(number) or number <= 0:
        choices = ", ".join(f"{name}=FACTOR ({change.meaning})" for name, change in CHANGES.items())
        what = f"--what-if {what_if} is not valid"
        raise UsageError(what, f"use one of {choices}", "A factor is above 0, such as 0.5 or 2")
    return key, number


def _wire(model: Model, factor: float) -> Model:
    exchanges = {
        op: replace(e, fixed_bytes=e.fixed_bytes * factor, sample_bytes=e.sample_bytes * factor)
        for op, e in model.work.exchanges.items()
    }
    return replace(model, work=replace(model.work, exchanges=exchanges))


def _self_time(model: Model, factor: float) -> Model:
    work = model.work
    slower = replace(work, sample_seconds=work.sample_seconds * factor, fixed_seconds=work.fixed_seconds * factor)
    return replace(model, work=slower)


def _links(model: Model, factor: float, names: Sequence[str], value: str) -> Model:
    """Return the model with one value of some links multiplied; `names` are fields of `Links`."""

    def changed(links: Links) -> Links:
        known = {name: link for name in names if (link := getattr(links, name)) is not None}
        changes = {name: replace(link, **{value: getattr(link, value) * factor}) for name, link in known.items()}
        return replace(links, **changes)

    return replace(model, links={op: changed(links) for op, links in model.links.items()})


CHANGES: dict[str, ModelChange] = {  # by key
    "net": ModelChange("bandwidth between hosts", partial(_links, names=("net",), value="bytes_per_second")),
    "host": ModelChange("bandwidth within a host", partial(_links, names=("host",), value="bytes_per_second")),
    "latency": ModelChange("latency of an exchange", partial(_links, names=("host", "net"), value="latency_seconds")),
    "wire": ModelChange("bytes of all exchanges; 0.5 for half precision", _wire),
    "own": ModelChange("self time of a rank", _self_time),
}
