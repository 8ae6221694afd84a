"""The origin of an exception: its place in the job's own code, its first cause, and whether a collective raised it.

A rank whose peer is gone dies of an error that a collective raises. A rank whose storage is gone may die of an error
with the same text. The traceback distinguishes them, also if the job wraps the error into one of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from traceback import walk_tb
from types import CodeType
from typing import NamedTuple

_MAX_CHAIN = 16  # exceptions that are followed from effect to cause; a chain may be a circle
_LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib is slow to import
_ZMON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_COLLECTIVES = ("distributed_c10d.py", "_functional_collectives.py")  # files of torch/distributed
# Functions in these files that connect ranks and are no collectives. An error in them is about the rendezvous.
_SETUP = ("init_process_group", "new_group", "_new_group_with_tag", "_new_process_group_helper", "split_group")

# Names of zmon's own wrappers: of collectives, and of the wait for an asynchronous one (zmon/probe/hooks/replacing.py).
_WRAPPER_FILE, _WRAPPERS = "<zmon", ("collective", "wait")


class Origin(NamedTuple):
    """The origin of an exception."""

    where: str  # the innermost frame of the job's own code: `train.py:88, load_batch`; "": there is none
    root: str  # the first exception in the chain of causes: `type: message`; "": the exception itself
    in_collective: bool  # it, or one of its causes, was raised inside a collective


def origin_of(error: BaseException) -> Origin:
    """Return the origin of an exception that was raised."""
    chain = [*_chain(error)]
    root = chain[-1]
    return Origin(
        next(filter(None, map(_own_frame, reversed(chain))), ""),
        "" if root is error else f"{type_name(root)}: {root}",
        any(map(_is_in_collective, chain)),
    )


def type_name(error: BaseException) -> str:
    """Return the full name of the type of an exception: `builtins.ValueError`."""
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its cause, the cause of that, and so on."""
    current: BaseException | None = error
    for _ in range(_MAX_CHAIN):
        if current is None:
            return
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _own_frame(error: BaseException) -> str:
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        if _is_own(frame.f_code):
            place = f"{os.path.basename(frame.f_code.co_filename)}:{line}, {frame.f_code.co_name}"  # noqa: PTH119
    return place


def _is_own(code: CodeType) -> bool:
    """Return True for code of the job, and False for a library or zmon."""
    path = code.co_filename
    is_library = path.startswith((_LIBRARY, _ZMON, _WRAPPER_FILE, "<frozen")) or any(part in path for part in _PACKAGES)
    return not is_library


def _is_in_collective(error: BaseException) -> bool:
    codes = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
    if any(code.co_filename.startswith(_WRAPPER_FILE) and code.co_name in _WRAPPERS for code in codes):
        return True
    names = [code.co_name for code in codes if os.path.basename(code.co_filename) in _COLLECTIVES]  # noqa: PTH119
    return bool(names) and not any(name in _SETUP for name in names)
