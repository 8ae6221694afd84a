"""Thresholds: numbers that decide, as fields of frozen dataclasses that a site can set. Pure.

The end of a name is the unit (`_seconds`, `_per_second`, `_ratio`; `num_` and `learned_after_` count); the comment on
its line gives the reason. Every value is checked when the dataclass is built, whoever builds it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from math import inf
from typing import Annotated, Any, TypeVar, cast, get_type_hints

from zmon.errors import UsageError

T = TypeVar("T")
PAGE = "docs/thresholds.md"
_MOST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Range:
    """Where a threshold may lie: above `over`, and `most` at most."""

    over: float = 0.0
    most: float = inf

    def __str__(self) -> str:
        return f"more than {self.over:g}" + (f" and at most {self.most:g}" if self.most < inf else "")


Part = Annotated[float, Range(0.0, 1.0)]  # of a whole
Most = Annotated[float, Range(0.5, 1.0)]  # the larger part of a whole
Times = Annotated[float, Range(1.0)]  # as much as something else, and more than that


@dataclass(frozen=True, slots=True)
class Threshold:
    """One that a site has set to something else than its default."""

    name: str  # as the configuration writes it: detectors.straggler.slower_ratio
    default: float
    value: float


@dataclass(frozen=True)
class Thresholds:
    """The base of every dataclass of thresholds. Raises ValueError: one of them is no number that it can be."""

    def __post_init__(self) -> None:
        for field in fields(self):
            wrong = _wrong(type(self), field.name, getattr(self, field.name))
            if wrong:
                raise ValueError(f"{field.name} {wrong}")


def build(default: T, settings: object, key: str) -> T:
    """`default` with the thresholds that a site has set. Raises UsageError, which names the dotted key."""
    given = mapping(settings, key)
    cls: Any = type(default)
    known = {field.name: getattr(default, field.name) for field in fields(cast(Any, default))}
    for name, value in given.items():
        if name not in known:
            raise unknown(f"{key}.{name}", "threshold", name, list(known))
        if wrong := _wrong(cls, name, value):
            raise UsageError(f"cannot set {key}.{name}", f"it {wrong}", f"The default is {known[name]:g}: see {PAGE}")
        known[name] = int(value) if _is_count(cls, name) else float(value)
    try:
        return cast(T, cls(**known))
    except ValueError as error:
        raise UsageError(f"cannot set {key}", str(error), f"Set both, or see {PAGE} for the defaults") from error


def mapping(settings: object, key: str) -> dict[str, Any]:
    """Settings by name; none where nothing is written. Raises UsageError: they are something else."""
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise UsageError(f"cannot set {key}", f"it is {settings!r}, and takes names with values", f"See {PAGE}")
    return {str(name): value for name, value in settings.items()}


def unknown(key: str, what: str, name: str, known: Sequence[str]) -> UsageError:
    """The error for a name that there is not, with the one that was probably meant."""
    alike = get_close_matches(name, known, 1)
    if alike:
        return UsageError(
            f"cannot set {key}", f"there is no {what} {name}, only {alike[0]}", f"Write {alike[0]}: see {PAGE}"
        )
    return UsageError(f"cannot set {key}", f"there is no {what} {name}", f"Write one of {', '.join(known)}: see {PAGE}")


def changed(holder: object, key: str) -> tuple[Threshold, ...]:
    """Those that differ from the defaults of their class."""
    values = {
        field.name: (cast(float, field.default), getattr(holder, field.name)) for field in fields(cast(Any, holder))
    }
    return tuple(Threshold(f"{key}.{name}", was, value) for name, (was, value) in values.items() if value != was)


@cache
def ranges(cls: type) -> dict[str, Range]:
    """Where each threshold of a class may lie, by name."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        field.name: next((one for one in getattr(hints[field.name], "__metadata__", ())), Range())
        for field in fields(cls)
    }


@cache
def _is_count(cls: type, name: str) -> bool:
    return get_type_hints(cls)[name] is int


def _wrong(cls: type, name: str, value: object) -> str:
    """What is wrong with a value; empty: nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"is {value!r}, which is no number"
    if not abs(value) <= _MOST:  # nor is it a NaN
        return f"is {value:g}, which is not finite" if isinstance(value, float) else "is larger than any can be"
    if _is_count(cls, name) and value != int(value):
        return f"is {value:g}, and counts whole ones"
    allowed = ranges(cls)[name]
    return "" if allowed.over < value <= allowed.most else f"is {value:g}, and must be {allowed}"
