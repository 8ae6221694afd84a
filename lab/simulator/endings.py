"""The ways in which a process ends: its exit status, and the last words that it leaves in its black box. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.simulator.network import address
from zmon.schema.rank import LastWords

_GLOO_CLOSED = "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [{address}]:{port}"
_GLOO_RESET = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection reset by peer [{address}]:{port}"
_PORT = 9401  # rank 0 listens there, the others beside it


@dataclass(frozen=True)
class ProcessEnd:
    """The end of a process, as the kernel and its black box have it."""

    status: str  # "exit code 1", "signal SIGKILL"
    words: LastWords | None  # the time is of the simulation
    leaves: Literal["at once", "later", "never"] = "at once"  # how soon the process ends after its last words


def raised(type_: str, message: str, *, wrapped: bool = False, in_collective: bool = False) -> ProcessEnd:
    """Return the end by an exception; `wrapped`: the job raised its own exception from it."""
    error = words("exception", type_, message, in_collective=in_collective)
    if wrapped:
        root = f"{type_}: {message}"
        error = words("exception", "train.StepError", "the step failed", root, in_collective=in_collective)
    return ProcessEnd("exit code 1", error, leaves="later")


def gloo_error(peer: int, host: int, *, is_reset: bool) -> str:
    """Return the error that gloo raises when the connection to a peer on that host breaks."""
    return (_GLOO_RESET if is_reset else _GLOO_CLOSED).format(address=address(host), port=_PORT + peer)


def victim(message: str, *, wraps: bool) -> ProcessEnd:
    """Return the end of a rank whose connection broke while it was in a collective."""
    return raised("builtins.RuntimeError", message, wrapped=wraps, in_collective=True)


def terminated(signal: str, *, handles_term: bool = False) -> ProcessEnd:
    """Return the end of a rank by SIGTERM, SIGINT or SIGKILL. `handles_term`: the job exits in order at SIGTERM."""
    if signal == "SIGKILL":
        return ProcessEnd("signal SIGKILL", None)
    if signal == "SIGINT":
        return ProcessEnd("signal SIGINT", words("exception", "builtins.KeyboardInterrupt", ""))
    if handles_term:
        return ProcessEnd("exit code 143", words("exception", "builtins.SystemExit", "143"))
    return ProcessEnd("signal SIGTERM", words("signal", "SIGTERM", 'File "train.py", line 12 in main'))


def words(kind: str, type_: str, message: str, root: str = "", in_collective: bool = False) -> LastWords:
    """Return last words; their time is set when the process leaves them."""
    where = "train_step() at train.py:88" if kind == "exception" else ""
    return LastWords(kind, type_, message, 0.0, where=where, root=root, in_collective=in_collective)
