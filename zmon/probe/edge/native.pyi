"""The extension module that `edge.c` becomes: the hot parts of the classes that `classes.py` completes."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

class SampleCounter: ...
class Ledger: ...
class Timeline: ...

def install(
    numbers: Mapping[str, int],
    classes: tuple[type, type, type],
    sources: tuple[str, str, str],
    /,
) -> None:
    """Take the numbers of the layout by name, the classes in Python, and the names of the sources of samples."""

class Reduction:
    read_sequence: object
    queue_callback: object
    count_slowly: object
    name: str
    on_computed: object
    op: int
    group: int
    num_bytes: int
    num_buckets: int
    def computed(self) -> None: ...

class Step:
    number: int | None

def connect(name: str, variable: object, /) -> None:
    """Let the fronts use a variable of a Python module."""

def front(
    kind: str,
    wrapper: F,
    shown: object,
    original: object,
    partner: object,
    names: tuple[str, ...],
    op: int,
    required: int,
    positions: tuple[int, ...],
    /,
) -> F:
    """Return a front that looks like `shown`; `positions` are those of its two tensors, its group and async_op."""

def num_flights() -> int:
    """Return the number of collectives in flight that C watches."""
