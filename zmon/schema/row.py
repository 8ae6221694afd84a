"""Rows of answers and files. A row copies the values that it has in common with the state that it shows. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def row_of(kind: type[T], state: object, **overrides: Any) -> T:
    """Return a row with the values of the same names in `state`, except those in `overrides`.

    Both are a Struct or a dataclass with slots.
    """
    types: tuple[Any, Any] = kind, type(state)  # mypy takes no type for hashable
    names, values = _common(*types)
    return kind(**{**dict(zip(names, values(state), strict=True)), **overrides})


@cache
def _common(kind: Any, source: type) -> tuple[tuple[str, ...], Callable[[object], tuple[Any, ...]]]:
    """Return the names that both have, two at least, and the function that returns their values."""
    row_names = kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else [field.name for field in fields(kind)]
    names = tuple(name for name in row_names if hasattr(source, name))
    return names, attrgetter(*names)
