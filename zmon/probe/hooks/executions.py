"""Watches the program that a rank becomes by an exec, such as the next stage of its job, once that program trains.

The environment of a rank with peers does not have the hook of `zmon run`, because its children are not ranks. A rank
that is its whole job keeps the hook, as it may start ranks. Before an exec the hook is added if it is missing. A
program that does not train, such as a server of the model, stays unwatched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

from zmon.probe.autoload.sitecustomize import AUTOLOAD, PARENT_PID, RANK_PID, mark_environment, restore_environment
from zmon.probe.hooks.replacing import replace, wrapper_of

_NO_PROCESS = "0"  # the value of RANK_PID: the program is not a rank before it trains


def install() -> None:
    """Wrap `os.execv` and `os.execve`, which all other exec functions call; forked children call the originals."""
    execv, execve, rank_pid = os.execv, os.execve, os.getpid()

    @wrapper_of(execv)
    def become(path: Any, argv: Any) -> NoReturn:
        if os.getpid() != rank_pid:
            execv(path, argv)
        restore = mark_environment if PARENT_PID in os.environ else restore_environment
        os.environ.update(hook_variables(os.environ))
        try:
            execv(path, argv)
        finally:
            restore()  # the exec failed, so the rank goes on

    @wrapper_of(execve)
    def become_in(path: Any, argv: Any, env: Any) -> NoReturn:
        needs_hook = os.getpid() == rank_pid and isinstance(env, Mapping)
        execve(path, argv, {**env, **hook_variables(env)} if needs_hook else env)

    if not hasattr(execv, "__zmon__"):
        replace({execv: become, execve: become_in})


def hook_variables(env: Mapping[str, str | bytes]) -> dict[str, str]:
    """Return the variables that a program in this environment needs to be watched."""
    path = os.fsdecode(env.get("PYTHONPATH", ""))
    if AUTOLOAD in path.split(os.pathsep):
        return {RANK_PID: _NO_PROCESS}
    return {"PYTHONPATH": f"{AUTOLOAD}{os.pathsep}{path}" if path else AUTOLOAD, RANK_PID: _NO_PROCESS}
