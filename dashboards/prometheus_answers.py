"""The answers of the HTTP API of Prometheus, with the fields that pages read. Values are strings, such as "NaN"."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

Data = TypeVar("Data")
Point = tuple[float, str]  # unix seconds by the clock of Prometheus, and the value


class Answer(msgspec.Struct, Generic[Data], frozen=True):
    """A successful answer of the API."""

    data: Data


class InstantSeries(msgspec.Struct, frozen=True):
    """One series at one instant."""

    metric: dict[str, str]  # its labels
    value: Point


class Vector(msgspec.Struct, frozen=True):
    """The answer to an instant query."""

    result: Sequence[InstantSeries]


class RangeSeries(msgspec.Struct, frozen=True):
    """One series over time."""

    metric: dict[str, str]  # its labels
    values: Sequence[Point]


class Matrix(msgspec.Struct, frozen=True):
    """The answer to a range query."""

    result: Sequence[RangeSeries]


class Flags(msgspec.Struct, frozen=True):
    """The command-line flags of Prometheus."""

    external_url: str = msgspec.field(default="", name="web.external-url")
