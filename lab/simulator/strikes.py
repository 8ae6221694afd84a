"""The instructions by which a fault strikes in the script of a rank. Pure.

A fault from outside (a signal, a link, the owner) is a single `Call` to the world.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from lab.simulator.composition import PARTS, Shape, Strike
from lab.simulator.endings import ProcessEnd, last_words, raised
from lab.simulator.instructions import Call, Instruction, Leave, Sleep, Spend, Turn

OUTSIDE = (
    "kill", "kill_host", "term", "term_host", "stop", "reset", "host_lost", "host_pause", "link_cut", "pair_cut",
    "cancel", "launcher_kill", "launcher_dies", *PARTS,
)  # fmt: skip
STORE_TIMEOUT = "The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500)."
_PHASES = {"collective": "backward", "between": "other", "loader_start": "data", "init": "other"}


def instructions_of(strike: Strike, shape: Shape) -> Iterator[Instruction]:
    """Yield the instructions by which a fault strikes a rank."""
    if strike.what in OUTSIDE:
        yield Call(strike, after=strike.amount / 8 * shape.step_seconds)
        return
    yield Call(strike)
    phase = _PHASES.get(strike.place, strike.place)
    if strike.what in ("pause", "pause_all"):
        yield from _pause(strike, phase)
    elif strike.what in ("block", "block_all"):
        yield Spend(phase, inf)
    elif strike.what == "disk":
        yield Sleep(phase)
    elif (ending := own_ending(strike, shape)) is not None:
        yield Leave(ending)


def _pause(strike: Strike, phase: str) -> Iterator[Instruction]:
    """Yield the instructions of a rank that takes some seconds longer; the start of a loader is an activity."""
    if strike.place == "loader_start":
        yield Turn("loader_start")
    yield Spend(phase, strike.seconds or 0.0)
    if strike.place == "loader_start":
        yield Turn("train")


def own_ending(strike: Strike, shape: Shape) -> ProcessEnd | None:
    """Return how the struck rank ends by its own doing; None if it does not."""
    match strike.what:
        case "raise" | "raise_all":
            return raised(strike.type, strike.message, wrapped=shape.wraps)
        case "raise_hung":  # its exit handlers wait for ever
            return replace(raised(strike.type, strike.message, wrapped=shape.wraps), exits="never")
        case "raise_wrapped":
            return raised(strike.type, strike.message, wrapped=True)
        case "no_rendezvous":
            return raised("torch.distributed.DistNetworkError", STORE_TIMEOUT, wrapped=shape.wraps)
        case "abort":
            return ProcessEnd("signal SIGABRT", None)
        case "exit_zero" | "finish":
            return ProcessEnd("exit code 0", last_words("exit", "", ""))
        case "exit_code":
            error = last_words("exception", "builtins.SystemExit", str(strike.code))
            return ProcessEnd(f"exit code {strike.code}", error)
    return None
