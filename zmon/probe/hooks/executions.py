"""Lets the program that a rank becomes by an exec be watched as well, once it trains.

The environment of a rank is as before `zmon run`, because its children are no ranks; that of a rank that is its whole
job says so. A rank that becomes the next stage
of its job is no child of one. A program that does not train, such as a server of the model, stays unwatched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

from zmon.probe.autoload.sitecustomize import AUTOLOAD, PARENT_PID, RANK_PID, mark_environment, restore_environment
from zmon.probe.hooks.replacing import replace, wrapper_of

_NO_PROCESS = "0"  # as RANK_PID: the program is no rank before it trains


def install() -> None:
    """Wrap `os.execv` and `os.execve`, which all functions of that kind call, for this process and not its children."""
    execv, execve, rank_pid = os.execv, os.execve, os.getpid()

    @wrapper_of(execv)
    def become(path: Any, argv: Any) -> NoReturn:
        if os.getpid() != rank_pid:
            execv(path, argv)
        restore = mark_environment if PARENT_PID in os.environ else restore_environment
        os.environ.update(watched(os.environ))
        try:
            execv(path, argv)
        finally:
            restore()  # it failed, so the rank goes on

    @wrapper_of(execve)
    def become_in(path: Any, argv: Any, env: Any) -> NoReturn:
        is_of_rank = os.getpid() == rank_pid and isinstance(env, Mapping)
        execve(path, argv, {**env, **watched(env)} if is_of_rank else env)

    if not hasattr(execv, "__zmon__"):
        replace({execv: become, execve: become_in})


def watched(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a program in this environment is watched."""
    path = env.get("PYTHONPATH")
    if path and AUTOLOAD in path.split(os.pathsep):
        return {RANK_PID: _NO_PROCESS}
    return {"PYTHONPATH": f"{AUTOLOAD}{os.pathsep}{path}" if path else AUTOLOAD, RANK_PID: _NO_PROCESS}
