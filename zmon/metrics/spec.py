"""What there is to say of a metric: its type, labels and help, and of a hardware metric where its values stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from zmon.schema.host import HostSample

Value = float | None  # None: unknown, and no series
Kind = Literal["gauge", "counter"]
_Thing = TypeVar("_Thing")


class Spec(NamedTuple):
    """One metric. Without a subject its values are added where ranks, agent or hub make their pages."""

    kind: Kind
    labels: tuple[str, ...]
    help: str
    subject: Subject[Any] | None = None
    read: Callable[[Any], Any] = lambda thing: None  # the value of one thing, or with `by` its values by that label
    by: str = ""


@dataclass(frozen=True, eq=False)
class Subject(Generic[_Thing]):
    """What hardware metrics are about, such as every GPU of a host: where it stands in a sample, and its labels."""

    labels: tuple[str, ...]  # the host's name first
    things: Callable[[HostSample], Iterable[_Thing]]
    named: Callable[[_Thing], tuple[object, ...]] = lambda thing: ()  # the values of the labels but the host

    def gauge(self, help_: str, read: Callable[[_Thing], Value | Mapping[Any, Value]], by: str = "") -> Spec:
        """A value that rises and falls. With `by` each thing has several, by that label."""
        return self._spec("gauge", help_, read, by)

    def counter(self, help_: str, read: Callable[[_Thing], Value | Mapping[Any, Value]], by: str = "") -> Spec:
        """A value that only rises. With `by` each thing has several, by that label."""
        return self._spec("counter", help_, read, by)

    def _spec(self, kind: Kind, help_: str, read: Callable[[_Thing], Value | Mapping[Any, Value]], by: str) -> Spec:
        return Spec(kind, (*self.labels, by) if by else self.labels, help_, self, read, by)
