"""Puts C callables before wrappers in Python, if this rank has the C edge.

A front does what its wrapper does in the common case, and calls the wrapper in all others (front.h). Without the C edge
the wrapper stays as it is. A front reads variables of Python modules, for example the timeline of this rank, so nothing
is kept twice; `connect` tells it where they are.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar

from zmon.probe.edge import CHOSEN

if CHOSEN.name == "c":
    from zmon.probe.edge import native

    native.connect("method_type", MethodType)

F = TypeVar("F", bound=Callable[..., Any])

_NO_PARAMETERS = (-1, -1, -1, -1)  # the positions of two tensors, group and async_op: none of them exists
# warnings.warn(stacklevel=…) skips frames of the import system, which it recognizes by `importlib` and `_bootstrap` in
# the file name (CPython, Python/_warnings.c, is_internal_frame). So a warning of torch still names the line of the job.
HIDDEN_FILE_NAME = "<zmon, passed over like importlib._bootstrap>"


def connect(**variables: object) -> None:
    """Let the fronts use these variables of Python modules, by the names that they have in edge.c."""
    if CHOSEN.name == "c":
        for name, value in variables.items():
            native.connect(name, value)


def front(kind: str, wrapper: F, original: object = None, partner: object = None) -> F:
    """Return a front of this kind before the wrapper; `partner` is the object with which it works (front.h)."""
    if CHOSEN.name != "c":
        return wrapper
    names = _parameters(wrapper)[0] if kind == "work" else ()
    return native.front(kind, wrapper, _shown(wrapper), original, partner, names, 0, 0, _NO_PARAMETERS)


def front_of_collective(
    wrapper: F, original: object, op: int, describe: Callable[..., object], sent: str | None, received: str | None
) -> F:
    """Return a front before the wrapper of a collective; the parameters `sent` and `received` are its tensors."""
    if CHOSEN.name != "c":
        return wrapper
    names, required = _parameters(describe)
    positions = tuple(names.index(name) if name in names else -1 for name in (sent, received, "group", "async_op"))
    return native.front("collective", wrapper, _shown(wrapper), original, None, names, op, required, positions)


def step_context(python_step: type) -> Any:
    """Return the context of `with zmon.step():`, which calls the methods of the class in Python in rare cases."""
    if CHOSEN.name != "c":
        return python_step()
    native.connect("python_step", python_step)
    return native.Step()


def reduction(**values: Any) -> Any:
    """Return what the C edge needs to count the reductions of a DDP module; None without the C edge."""
    if CHOSEN.name != "c":
        return None
    new_reduction = native.Reduction()
    for name, value in values.items():
        setattr(new_reduction, name, value)
    new_reduction.on_computed = new_reduction.computed
    return new_reduction


def num_flights() -> int:
    """Return the number of collectives in flight that the C edge watches."""
    return native.num_flights() if CHOSEN.name == "c" else 0


def _shown(wrapper: F) -> FunctionType:
    """Return the function that a front looks like.

    It has no closure, because the compiler's guards on closures accept real functions only.
    """
    shown = FunctionType(
        _show.__code__.replace(co_filename=HIDDEN_FILE_NAME), {"wrapper": wrapper, "__builtins__": vars(builtins)}
    )
    functools.update_wrapper(shown, wrapper)
    shown.__dict__ = dict(wrapper.__dict__)  # without a __wrapped__ of its own
    return shown


# The code of every function that a front looks like: `_shown` makes `wrapper` one of its global variables.
def _show(*args: Any, **kwargs: Any) -> Any:
    return wrapper(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def _parameters(function: Callable[..., object]) -> tuple[tuple[str, ...], int]:
    """Return the names of the parameters, and how many of them a call must have."""
    parameters = inspect.signature(function).parameters
    num_required = sum(parameter.default is inspect.Parameter.empty for parameter in parameters.values())
    return tuple(parameters), num_required
