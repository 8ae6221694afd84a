"""Read the stacks of a rank: the innermost frame of the job's own code, which a person recognizes, and its threads.

The stacks are text, as py-spy (`    read (/home/ann/loader.py:40)`) or faulthandler (`  File "/home/ann/loader.py",
line 40 in read`) writes them, the innermost frame first. Frames of torch, the standard library, installed packages and
zmon are skipped. A trainer that is itself an installed package has no other frames; then its package is the job's own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from typing import NamedTuple

from zmon.schema.names import place_in_code
from zmon.schema.training_loops import TrainingLoop

_PY_SPY_FRAME = re.compile(r"\s+(?P<function>\S.*) \((?P<path>.+):(?P<line>\d+)\)$")
_FAULTHANDLER_FRAME = re.compile(r'\s+File "(?P<path>.+)", line (?P<line>\d+),? in (?P<function>.+)$')
_THREAD = re.compile(r"(Current thread|Thread|Stack) ")
_MAIN_THREAD = re.compile(r'"MainThread"|\[MainThread\]')
_THREAD_NUMBER = re.compile(r"^Thread (\d+) \(", re.MULTILINE)  # py-spy's; faulthandler writes pthread_self(3) in hex
_STATE = re.compile(r"(?<=\d )\((?:idle|active|active\+gil)\)")
_INSTALLED = re.compile(r"/(site-packages|dist-packages|[^/]+\.whl)/(?P<package>[^/]+)")
_STANDARD_LIBRARY = re.compile(r"/lib(64)?/python3(\.\d+t?)?/")
# torch that was built from source lies in any folder, and a job's own folder may be named torch as well.
_TORCH = re.compile(
    r"(^|/)torch/(_[^/]+|nn|utils|distributed|optim|autograd|multiprocessing|cuda|fx|compiler|serialization\.py)(/|$)"
)
# With `python -m pdb` other functions of pdb and bdb are in each stack.
_DEBUGGER = re.compile(r"(^|/)pdb\.py, interaction$")
_OUTERMOST = ("<module>", "_run_module_as_main")  # of a script, and of `python -m`
_ZMON = re.compile(r"(^|/)zmon/(probe/|box/|schema/|__init__\.py$)")  # what zmon runs inside a rank


class _Frame(NamedTuple):
    """One line of a stack."""

    path: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """The frame as people read it, such as `read() at loader.py:40`."""
        return place_in_code(self.function, self.path.rpartition("/")[2], self.line)

    @property
    def is_foreign(self) -> bool:
        """True for frames that belong to no job: Python itself, torch, zmon."""
        path = self.path
        if path.startswith("<") or _ZMON.search(path):
            return True
        if installed := _INSTALLED.search(path):
            return installed["package"] in ("torch", "zmon")
        if not path.startswith("/") and path.partition("/")[0].removesuffix(".py") in sys.stdlib_module_names:
            return True  # py-spy may shorten a path to the part within the package
        return bool(_STANDARD_LIBRARY.search(path) or _TORCH.search(path))

    @property
    def package(self) -> str | None:
        """The installed package that the frame belongs to; None for files outside site-packages."""
        installed = _INSTALLED.search(self.path)
        return installed["package"] if installed else None


def job_frame(stack: str) -> str | None:
    """Return the innermost frame of the job's own code in the main thread, such as `read() at loader.py:40`.

    None if the text has no stack, or no frame of the job.
    """
    frames = [frame for frame in _frames(_main_thread(stack.splitlines())) if not frame.is_foreign]
    if not frames:
        return None
    frame = next((frame for frame in frames if frame.package is None), None)
    if frame is None:  # the job's code is the package whose code started it, the outermost frame
        frame = next(frame for frame in frames if frame.package == frames[-1].package)
    return frame.text


def main_functions(stack: str) -> tuple[str, ...]:
    """Return the functions in which the main thread is, the innermost first, each with its file."""
    return tuple(f"{frame.path}, {frame.function}" for frame in _frames(_main_thread(stack.splitlines())))


def is_outside(loops: Collection[TrainingLoop], stack: str) -> bool | None:
    """Return True if the main thread is in none of these loops.

    None: no loop is known, or the text does not have all frames up to the one that runs the program.
    """
    frames = _frames(_main_thread(stack.splitlines()))
    if not loops or not frames or frames[-1].function not in _OUTERMOST:
        return None
    return not any(loop.has(frame.path, frame.function, frame.line) for frame in frames for loop in loops)


def is_in_debugger(functions: Sequence[str]) -> bool:
    """Return True if a main thread with these functions (`main_functions`) is in Python's debugger, pdb."""
    return any(_DEBUGGER.search(function) for function in functions)


def threads(stack: str) -> tuple[int, ...]:
    """Return the threads in the text, by the kernel's numbers; empty if the text does not have these."""
    return tuple(int(number) for number in _THREAD_NUMBER.findall(stack))


def without_states(stack: str) -> str:
    """Return the text without the states that py-spy guesses for threads: equal texts are equal stacks."""
    return _STATE.sub("", stack)


def _main_thread(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of the main thread, or of all threads if the text names no threads.

    py-spy names threads. faulthandler writes the newest thread first, so the last one is the main thread.
    """
    starts = [number for number, line in enumerate(lines) if _THREAD.match(line)]
    if not starts:
        return lines
    blocks = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    by_py_spy = any(_PY_SPY_FRAME.match(line) for line in lines)
    return next((block for block in blocks if _MAIN_THREAD.search(block[0])), blocks[0 if by_py_spy else -1])


def _frames(lines: Sequence[str]) -> list[_Frame]:
    """Return the frames in these lines, the innermost first."""
    matches = [_FAULTHANDLER_FRAME.match(line) or _PY_SPY_FRAME.match(line) for line in lines]
    # py-spy may write `Class.function`; only some versions of Python let it know the class
    return [_Frame(m["path"], int(m["line"]), m["function"].rpartition(".")[2]) for m in matches if m]
