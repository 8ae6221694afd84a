"""Dataclasses as rows: their values in order, without the names of fields. Both ends have the same version of zmon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

T = TypeVar("T")


class Rows(Generic[T]):
    """Some fields of a dataclass as the columns of a row."""

    def __init__(self, cls: type[T], fields: Sequence[str]) -> None:
        hints = get_type_hints(cls, include_extras=True)
        row: Any = tuple[tuple(hints[name] for name in fields)]  # type: ignore[misc]
        self.decode: Callable[[bytes], tuple[Sequence[Any], ...]] = msgspec.json.Decoder(tuple[row, ...]).decode
        self._values = attrgetter(*fields)

    def of(self, items: Iterable[T]) -> list[Any]:
        """Return a row for each item."""
        return [self._values(item) for item in items]


class Halves(Generic[T]):
    """A dataclass in two rows, which are sent apart: fields that rest, and fields that move."""

    def __init__(self, cls: type[T], moving: Sequence[str], left_out: Sequence[str] = ()) -> None:
        names = [*get_type_hints(cls)]
        resting = [name for name in names if name not in moving and name not in left_out]
        self.resting, self.moving = Rows(cls, resting), Rows(cls, moving)
        self._class = cls
        self._in_order = itemgetter(*([*resting, *moving, *left_out].index(name) for name in names))
        self._nothing = (None,) * len(left_out)

    def joined(self, resting: Sequence[Any], moving: Sequence[Any]) -> T:
        """Return the item of two rows; what was left out is None."""
        return self._class(*self._in_order((*resting, *moving, *self._nothing)))
