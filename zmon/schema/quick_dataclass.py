"""A dataclass that type checkers treat as frozen, for values of which a hub makes ten thousands each second.

`dataclass(frozen=True)` sets each field by `object.__setattr__`: a rank's state takes 6.3 µs to make instead of 0.6 µs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def quick_dataclass(cls: type[T]) -> type[T]:
    """Make the class a dataclass with slots. Nothing may assign to its fields, which mypy checks."""
    return dataclass(slots=True)(cls)
