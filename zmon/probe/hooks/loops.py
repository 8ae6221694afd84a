"""Notes the loops around the end of a training step, so that the agent can tell whether a rank has left them.

Once a second, at the end of a step, the stack shows which loops the step is in. A loop is found in the bytecode, by its
jumps back, because the source may be gone or have changed. Its lines are those of all instructions from which a jump
back can be reached: a `break` or `return` at the end of its body is outside. Lines decide, and not the place in the
bytecode, because Python compiles the condition of a `while` twice.

The loops of steps in another thread than the main one are unknown: its place does not show what the job does next.
"""

from __future__ import annotations

import dis
import sys
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from threading import get_ident
from types import CodeType

from zmon import probe
from zmon.probe.ledger import MemoryReader
from zmon.schema.training_loops import TrainingLoop, as_text

# Loops in these packages are parts of a step, such as the one over the parameters.
_PARTS_OF_STEPS = ("torch", "zmon")
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")  # no instruction follows these
_MAX_BYTES = 40_000  # of the bytecode of a function, which takes 15 to 25 ms once; longer bytecode is not read
_MAX_FUNCTIONS = 256  # functions whose loops are stored; a notebook makes new functions in each cell

# The frames of a step, the innermost first: the code, and the line of the call.
Chain = tuple[tuple[CodeType, int], ...]
Lines = tuple[int, int]  # the first and the last line of a loop


def install() -> None:
    """Note the loops each time that the ledger reads the memory of the device, which it does once a second."""
    timeline = probe.current
    if timeline is not None:
        timeline.ledger.memory_reader = LoopNotes(timeline.ledger.memory_reader)


class LoopNotes:
    """The reader of the device's memory, which notes the loops first."""

    def __init__(self, reader: MemoryReader | None) -> None:
        self._reader = reader
        self._chain: Chain = ()
        self._text = ""  # of the last note
        self._loops: dict[CodeType, list[Lines]] = {}

    def __call__(self) -> tuple[int, int, int] | None:
        try:
            text = self._current_text()
        except Exception as error:  # bytecode of an unknown form, for example from a tool that rewrites it
            probe.complain(f"the loops around the training steps are unknown: {error!r}")
            text = ""
        if text != self._text:
            self._text = text
            probe.identify(loops=text)
        return self._reader() if self._reader is not None else None

    def _current_text(self) -> str:
        """Return the loops around the step that ends now. Raises ValueError if a function is too long."""
        chain = tuple(_chain()) if get_ident() == threading.main_thread().ident else ()
        if chain == self._chain:
            return self._text
        self._chain = chain
        return as_text([*self._training_loops(chain)])

    def _training_loops(self, chain: Chain) -> Iterator[TrainingLoop]:
        for code, line in chain:
            if code not in self._loops:
                if len(self._loops) == _MAX_FUNCTIONS:
                    self._loops.clear()
                self._loops[code] = find_loops(code)
            for first, last in self._loops[code]:
                if first <= line <= last:
                    yield TrainingLoop(code.co_filename, code.co_name, first, last)


def _chain() -> Iterator[tuple[CodeType, int]]:
    """Yield the frames of this thread, the innermost first, without those of torch and zmon."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _PARTS_OF_STEPS:
            yield frame.f_code, frame.f_lineno or 0


def find_loops(code: CodeType) -> list[Lines]:
    """Return the loops of a function, without those of functions in it. Raises ValueError if it is too long.

    A loop is the natural loop of each target of jumps back: the instructions that reach such a jump without passing the
    target. Exceptions are followed as well, so that a handler that tries again is in the loop.
    """
    if len(code.co_code) > _MAX_BYTES:
        raise ValueError(f"{code.co_name} is too long")
    instructions = [*dis.get_instructions(code)]
    before: dict[int, set[int]] = defaultdict(set)  # the offsets from which each offset is reached
    jumps_back: dict[int, set[int]] = defaultdict(set)  # the offsets of the jumps, by target
    for current, following in zip(instructions, [*instructions[1:], None], strict=True):
        is_jump = current.opcode in dis.hasjrel or current.opcode in dis.hasjabs
        always_jumps = is_jump and current.opname.startswith(("JUMP_FORWARD", "JUMP_BACKWARD"))
        if is_jump:
            before[current.argval].add(current.offset)
            if current.argval <= current.offset:
                jumps_back[current.argval].add(current.offset)
        if following is not None and not always_jumps and current.opname not in _ENDS:
            before[following.offset].add(current.offset)
    offsets = [instruction.offset for instruction in instructions]
    for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]
        before[entry.target].update(offsets[bisect_left(offsets, entry.start) : bisect_left(offsets, entry.end)])
    lines = {instruction.offset: instruction.positions and instruction.positions.lineno for instruction in instructions}
    loops = []
    for target, jumps in jumps_back.items():
        loop = _natural_loop(target, jumps, before)
        known = [line for offset in loop if (line := lines[offset])]
        if known and 0 not in loop:  # else its jumps are reached without passing the target, so this is not a loop
            loops.append((min(known), max(known)))
    return loops


def _natural_loop(target: int, jumps: set[int], before: dict[int, set[int]]) -> set[int]:
    loop, pending = {target}, [*jumps]
    while pending:
        offset = pending.pop()
        if offset not in loop:
            loop.add(offset)
            pending += before[offset]
    return loop
