"""Notes the loops around the end of a training step, so that the agent can tell whether a rank has left them.

Once a second, at the end of a step, the stack shows which loops the step is in. A loop is found in the bytecode, by its
jumps back, because the source may be gone or have changed. Its lines are those of all instructions from which a jump
back can be reached: a `break` or `return` at the end of its body is outside.

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
from typing import NamedTuple

from zmon import probe
from zmon.probe.ledger import MemoryReader
from zmon.schema.training_loops import TrainingLoop, as_text

# Loops in these packages are parts of a step, such as the one over the parameters.
_PARTS_OF_STEPS = ("torch", "zmon")
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")  # no instruction follows these
_MAX_BYTES = 40_000  # of the bytecode of a function, which takes about 0.1 s once; a longer one is not read

Chain = tuple[tuple[CodeType, int], ...]  # the frames of a step, the innermost first: code, and offset of the call


class _Loop(NamedTuple):
    """A loop in the bytecode of one function."""

    offsets: frozenset[int]  # of its instructions and their caches
    first_line: int
    last_line: int


def install() -> None:
    """Note the loops each time that the ledger reads the memory of the device, which it does once a second."""
    timeline = probe.current
    if timeline is not None:
        timeline.ledger.memory_reader = LoopNotes(timeline.ledger.memory_reader)


class LoopNotes:
    """The reader of the device's memory, which notes the loops first."""

    def __init__(self, reader: MemoryReader | None) -> None:
        self._reader = reader
        self._chain: Chain = ()  # of the last note
        self._loops: dict[CodeType, list[_Loop]] = {}  # of the functions in this chain

    def __call__(self) -> tuple[int, int, int] | None:
        self._note(tuple(_chain()) if get_ident() == threading.main_thread().ident else ())
        return self._reader() if self._reader is not None else None

    def _note(self, chain: Chain) -> None:
        if chain == self._chain:
            return
        self._chain = chain
        try:
            text = as_text([*self._training_loops(chain)])
        except Exception as error:  # bytecode of an unknown form, for example from a tool that rewrites it
            probe.complain(f"the loops around the training steps are unknown: {error!r}")
            text = ""
        probe.identify(loops=text)

    def _training_loops(self, chain: Chain) -> Iterator[TrainingLoop]:
        """Yield the loops around a step. Raises ValueError if a function is too long."""
        self._loops = {code: self._loops.get(code) or find_loops(code) for code, _ in chain}
        for code, offset in chain:
            for loop in self._loops[code]:
                if offset in loop.offsets:
                    yield TrainingLoop(code.co_filename, code.co_name, loop.first_line, loop.last_line)


def _chain() -> Iterator[tuple[CodeType, int]]:
    """Yield the frames of this thread, the innermost first, without those of torch and zmon."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _PARTS_OF_STEPS:
            yield frame.f_code, frame.f_lasti


def find_loops(code: CodeType) -> list[_Loop]:
    """Return the loops of a function, without those of functions in it. Raises ValueError if it is too long.

    A loop is the natural loop of each target of jumps back: the instructions that reach such a jump without passing the
    target. Exceptions are followed as well, so that a handler that tries again is in the loop.
    """
    if len(code.co_code) > _MAX_BYTES:
        raise ValueError(f"{code.co_name} is too long")
    instructions = [*dis.get_instructions(code)]
    before: dict[int, set[int]] = defaultdict(set)  # the offsets from which each offset is reached
    jumps_back: dict[int, set[int]] = defaultdict(set)  # the offsets of the jumps, by target
    for each, following in zip(instructions, [*instructions[1:], None], strict=True):
        is_jump = each.opcode in dis.hasjrel or each.opcode in dis.hasjabs
        is_certain = each.opname in _ENDS or (is_jump and each.opname.startswith(("JUMP_FORWARD", "JUMP_BACKWARD")))
        if is_jump:
            before[each.argval].add(each.offset)
            if each.argval <= each.offset:
                jumps_back[each.argval].add(each.offset)
        if following is not None and not is_certain:
            before[following.offset].add(each.offset)
    starts = [each.offset for each in instructions]
    for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]
        before[entry.target].update(starts[bisect_left(starts, entry.start) : bisect_left(starts, entry.end)])
    lines = {each.offset: each.positions and each.positions.lineno for each in instructions}
    ends = dict(zip(starts, [*starts[1:], len(code.co_code)], strict=True))
    loops = []
    for target, jumps in jumps_back.items():
        offsets = _natural_loop(target, jumps, before)
        known = [line for offset in offsets if (line := lines[offset])]
        if known and 0 not in offsets:  # from a loop no way leads back to the beginning of the function
            # A frame that calls may be at the cache of the call, which follows its instruction.
            places = frozenset(place for offset in offsets for place in range(offset, ends[offset], 2))
            loops.append(_Loop(places, min(known), max(known)))
    return loops


def _natural_loop(target: int, jumps: set[int], before: dict[int, set[int]]) -> set[int]:
    offsets, pending = {target}, [*jumps]
    while pending:
        offset = pending.pop()
        if offset not in offsets:
            offsets.add(offset)
            pending += before[offset]
    return offsets
