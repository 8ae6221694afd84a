"""The faults that a rank's own script causes, and the last words of each way in which a process ends. Pure.

Faults from outside (signals, links, the owner) begin with a `Call` to the world.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from lab.simulator.composition import PARTS, Shape, Strike
from lab.simulator.hardware import address
from lab.simulator.program import Call, Instruction, Leave, Sleep, Spend, Turn
from lab.simulator.rank import ProcessEnd
from zmon.schema.rank import LastWords

OUTSIDE = (
    "kill", "kill_host", "term", "term_host", "stop", "reset", "host_lost", "host_pause", "link_cut", "pair_cut",
    "cancel", "launcher_kill", "launcher_dies", *PARTS,
)  # fmt: skip
_GLOO_CLOSED = "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [{address}]:{port}"
_GLOO_RESET = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection reset by peer [{address}]:{port}"
_PORT = 9401  # rank 0 listens there, the others beside it
STORE_TIMEOUT = "The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500)."
_PHASES = {"collective": "backward", "between": "other", "loader_start": "data", "init": "other"}


def struck(strike: Strike, shape: Shape) -> Iterator[Instruction]:
    """Yield what the struck rank does."""
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
            return replace(raised(strike.type, strike.message, wrapped=shape.wraps), leaving_seconds=inf)
        case "raise_wrapped":
            return raised(strike.type, strike.message, wrapped=True)
        case "no_rendezvous":
            return raised("torch.distributed.DistNetworkError", STORE_TIMEOUT, wrapped=shape.wraps)
        case "abort":
            return ProcessEnd("signal SIGABRT", None)
        case "exit_zero" | "finish":
            return ProcessEnd("exit code 0", words("exit", "", ""))
        case "exit_code":
            return ProcessEnd(f"exit code {strike.code}", words("exception", "builtins.SystemExit", str(strike.code)))
    return None


def raised(type_: str, message: str, wrapped: bool = False, in_collective: bool = False) -> ProcessEnd:
    """Return the end by an exception; `wrapped`: the job raised its own exception from it."""
    error = ("train.StepError", "the step failed", f"{type_}: {message}") if wrapped else (type_, message, "")
    return ProcessEnd("exit code 1", words("exception", *error, in_collective=in_collective), leaving_seconds=0.1)


def gloo_error(peer: int, host: int, is_reset: bool) -> str:
    """Return the error that gloo raises when the connection to a peer on that host breaks."""
    return (_GLOO_RESET if is_reset else _GLOO_CLOSED).format(address=address(host), port=_PORT + peer)


def victim(message: str, wraps: bool) -> ProcessEnd:
    """Return the end of a rank whose connection broke while it was in a collective."""
    return raised("builtins.RuntimeError", message, wraps, in_collective=True)


def terminated(name: str, handles_term: bool) -> ProcessEnd:
    """Return the end of a rank by SIGTERM, SIGINT or SIGKILL."""
    if name == "SIGKILL":
        return ProcessEnd("signal SIGKILL", None)
    if name == "SIGINT":
        return ProcessEnd("signal SIGINT", words("exception", "builtins.KeyboardInterrupt", ""))
    if handles_term:
        return ProcessEnd("exit code 143", words("exception", "builtins.SystemExit", "143"))
    return ProcessEnd("signal SIGTERM", words("signal", "SIGTERM", 'File "train.py", line 12 in main'))


def words(kind: str, type_: str, message: str, root: str = "", in_collective: bool = False) -> LastWords:
    """Return last words; their time is set when the process leaves them."""
    where = "train_step() at train.py:88" if kind == "exception" else ""
    return LastWords(kind, type_, message, 0.0, where=where, root=root, in_collective=in_collective)
