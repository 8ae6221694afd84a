"""The base class of thresholds and its checks; the values are in `zmon/detectors/*.py` and `zmon/job/lease.py`.

Thresholds are the fields of frozen dataclasses, and a site can set them. The end of a name is the unit (`_seconds`,
`_per_second`, `_ratio`; `num_` and `learned_after_` are counts). The comment above a field gives its meaning and the
reason for its value; docs/thresholds.md is generated from these comments. Every value is checked when the dataclass is
built. Pure.
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
_MAX_FLOAT = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Range:
    """The allowed range of a threshold: greater than `above`, and at most `at_most`."""

    above: float = 0.0
    at_most: float = inf

    def __str__(self) -> str:
        return f"more than {self.above:g}" + (f" and at most {self.at_most:g}" if self.at_most < inf else "")


Share = Annotated[float, Range(0.0, 1.0)]  # a share of a whole
Majority = Annotated[float, Range(0.5, 1.0)]  # a share above one half
Multiple = Annotated[float, Range(1.0)]  # a multiple of another value


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold that a site has set to another value than its default."""

    name: str  # dotted, as in the configuration: detectors.straggler.slower_ratio
    default: float
    value: float


@dataclass(frozen=True)
class Thresholds:
    """The base of every dataclass of thresholds. Raises ValueError if a value is out of its range."""

    def __post_init__(self) -> None:
        for field in fields(self):
            problem = _problem(type(self), field.name, getattr(self, field.name))
            if problem:
                raise ValueError(f"{field.name} {problem}")


def build(default: T, settings: object, key: str) -> T:
    """Return `default` with the thresholds that a site has set. Raises UsageError, which names the dotted key."""
    by_name = mapping(settings, key)
    cls: Any = type(default)
    values = {field.name: getattr(default, field.name) for field in fields(cast(Any, default))}
    for name, value in by_name.items():
        if name not in values:
            raise unknown(f"{key}.{name}", "threshold", name, list(values))
        if problem := _problem(cls, name, value):
            raise UsageError(
                f"cannot set {key}.{name}", f"it {problem}", f"The default is {values[name]:g}: see {PAGE}"
            )
        values[name] = int(value) if _is_count(cls, name) else float(value)
    try:
        return cast(T, cls(**values))
    except ValueError as error:
        raise UsageError(f"cannot set {key}", str(error), f"Set both, or see {PAGE} for the defaults") from error


def mapping(settings: object, key: str) -> dict[str, Any]:
    """Return the settings by name; empty if there are none. Raises UsageError if they are not a mapping."""
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise UsageError(f"cannot set {key}", f"it is {settings!r}, but it needs names with values", f"See {PAGE}")
    return {str(name): value for name, value in settings.items()}


def unknown(key: str, what: str, name: str, known: Sequence[str]) -> UsageError:
    """Return the error for an unknown name, with the known name that comes closest."""
    reason = f"there is no {what} {name}"
    if nearest := get_close_matches(name, known, 1):
        return UsageError(
            f"cannot set {key}", f"{reason}; the nearest is {nearest[0]}", f"Write {nearest[0]}: see {PAGE}"
        )
    return UsageError(f"cannot set {key}", reason, f"Write one of {', '.join(known)}: see {PAGE}")


def changed(holder: object, key: str) -> tuple[Threshold, ...]:
    """Return the thresholds of `holder` that differ from the defaults of its class."""
    return tuple(
        Threshold(f"{key}.{field.name}", cast(float, field.default), value)
        for field in fields(cast(Any, holder))
        if (value := getattr(holder, field.name)) != field.default
    )


@cache
def ranges(cls: type) -> dict[str, Range]:
    """Return the allowed range of each threshold of a class, by name."""
    hints = get_type_hints(cls, include_extras=True)
    allowed = {}
    for field in fields(cls):
        metadata = getattr(hints[field.name], "__metadata__", ())  # of Annotated
        allowed[field.name] = metadata[0] if metadata else Range()
    return allowed


@cache
def _is_count(cls: type, name: str) -> bool:
    return get_type_hints(cls)[name] is int


def _problem(cls: type, name: str, value: object) -> str:
    """Return what is wrong with a value, as the end of a sentence; empty if it is valid."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"is {value!r}, which is not a number"
    if not abs(value) <= _MAX_FLOAT:  # also true for NaN
        return f"is {value:g}, which is not finite" if isinstance(value, float) else "is larger than any float"
    if _is_count(cls, name) and value != int(value):
        return f"is {value:g}, but must be a whole number"
    allowed = ranges(cls)[name]
    return "" if allowed.above < value <= allowed.at_most else f"is {value:g}, but must be {allowed}"
