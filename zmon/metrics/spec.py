"""The specification of a metric: type, labels and help text; for a hardware metric also how to read its values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from zmon.schema.host import HostSample

Value = float | None  # None: unknown, and no series
Kind = Literal["gauge", "counter"]
_Item = TypeVar("_Item")


class Spec(NamedTuple):
    """One metric. Metrics without a subject get their values in `ranks.py`, `agent.py` or `hub.py`."""

    kind: Kind
    labels: tuple[str, ...]
    help: str
    subject: Subject[Any] | None = None
    read: Callable[[Any], Any] = lambda item: None  # the value of one item, or with `by` its values by that label
    by: str = ""


@dataclass(frozen=True, eq=False)
class Subject(Generic[_Item]):
    """The items that a hardware metric describes, such as the GPUs of a host, and their labels."""

    labels: tuple[str, ...]  # the host is the first label
    items: Callable[[HostSample], Iterable[_Item]]
    label_values: Callable[[_Item], tuple[object, ...]] = lambda item: ()  # values of all labels except the host

    def gauge(self, help_: str, read: Callable[[_Item], Value | Mapping[Any, Value]], by: str = "") -> Spec:
        """Return a metric whose value rises and falls. With `by`, each item has one value per value of that label."""
        return self._spec("gauge", help_, read, by)

    def counter(self, help_: str, read: Callable[[_Item], Value | Mapping[Any, Value]], by: str = "") -> Spec:
        """Return a metric whose value only rises. With `by`, each item has one value per value of that label."""
        return self._spec("counter", help_, read, by)

    def _spec(self, kind: Kind, help_: str, read: Callable[[_Item], Value | Mapping[Any, Value]], by: str) -> Spec:
        return Spec(kind, (*self.labels, by) if by else self.labels, help_, self, read, by)
