"""The ways in which a process ends: its exit status, and the last words that it leaves in its black box. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.simulator.network import address
from zmon.schema.rank import LastWords

_GLOO_CLOSED = "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [{address}]:{port}"
_GLOO_RESET = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection reset by peer [{address}]:{port}"
_PORT = 9401  # of rank 0; rank N listens on _PORT + N
SignalName = Literal["SIGTERM", "SIGINT", "SIGKILL"]


@dataclass(frozen=True)
class ProcessEnd:
    """The end of a process: what the kernel reports, and what is in its black box."""

    status: str  # "exit code 1", "signal SIGKILL"
    words: LastWords | None  # their time is simulated time
    exits: Literal["at once", "later", "never"] = "at once"  # how soon the process ends after its last words


def raised(type_: str, message: str, *, wrapped: bool = False, in_collective: bool = False) -> ProcessEnd:
    """Return the end by an exception; `wrapped`: the job raised its own exception from it."""
    error = last_words("exception", type_, message, in_collective=in_collective)
    if wrapped:
        root = f"{type_}: {message}"
        error = last_words("exception", "train.StepError", "the step failed", root=root, in_collective=in_collective)
    return ProcessEnd("exit code 1", error, exits="later")


def gloo_error(peer: int, host: int, *, is_reset: bool) -> str:
    """Return the error that gloo raises when the connection to a peer on that host breaks."""
    return (_GLOO_RESET if is_reset else _GLOO_CLOSED).format(address=address(host), port=_PORT + peer)


def victim(message: str, *, wrapped: bool) -> ProcessEnd:
    """Return the end of a rank whose connection broke while it was in a collective."""
    return raised("builtins.RuntimeError", message, wrapped=wrapped, in_collective=True)


def terminated(signal: SignalName, *, handles_term: bool = False) -> ProcessEnd:
    """Return the end of a rank by SIGTERM, SIGINT or SIGKILL. `handles_term`: SIGTERM ends it with exit code 143."""
    if signal == "SIGKILL":
        return ProcessEnd("signal SIGKILL", None)
    if signal == "SIGINT":
        return ProcessEnd("signal SIGINT", last_words("exception", "builtins.KeyboardInterrupt", ""))
    if handles_term:
        return ProcessEnd("exit code 143", last_words("exception", "builtins.SystemExit", "143"))
    return ProcessEnd("signal SIGTERM", last_words("signal", "SIGTERM", 'File "train.py", line 12 in main'))


def last_words(kind: str, type_: str, message: str, *, root: str = "", in_collective: bool = False) -> LastWords:
    """Return last words; their time is set when the process leaves them."""
    where = "train_step() at train.py:88" if kind == "exception" else ""
    return LastWords(kind, type_, message, 0.0, where=where, root=root, in_collective=in_collective)
