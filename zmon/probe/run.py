"""`zmon run`: become the command, with an environment in which every Python that imports torch is watched.

zmon replaces itself by the command, so exit code, signals, terminal and process group are the command's own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from zmon.errors import UsageError, ZmonError
from zmon.probe.autoload import AUTOLOAD, RUN_PID
from zmon.probe.launch import check_job_id


def environment(
    env: Mapping[str, str], job_id: str | None = None, labels: Sequence[str] = (), autoload: str = AUTOLOAD
) -> dict[str, str]:
    """What the command gets: zmon's sitecustomize first in PYTHONPATH, and what the ranks are to say of the job."""
    for label in labels:
        if "," in label or not label.partition("=")[0].strip() or "=" not in label:
            raise UsageError(
                f"--label {label!r} is no label", "it takes KEY=VALUE without a comma", "Repeat --label for each"
            )
    given = dict(env)
    given[RUN_PID] = str(os.getpid())
    path = env.get("PYTHONPATH")  # an empty one is none; an empty part of it would be the working directory
    if autoload not in (path or "").split(os.pathsep):
        given["PYTHONPATH"] = f"{autoload}{os.pathsep}{path}" if path else autoload
    if job_id is not None:
        given["ZMON_JOB_ID"] = check_job_id(job_id)
    if labels:
        given["ZMON_LABELS"] = ",".join(filter(None, [env.get("ZMON_LABELS"), *labels]))
    return given


def become(command: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command. Raises OSError where it cannot be started."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would inherit that
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(command[0], list(command), env)


def refusal(command: str, error: OSError) -> tuple[int, ZmonError]:
    """The exit code that shells have for a command that cannot be started, and what to say of it."""
    why = os.strerror(error.errno or 0).lower()
    if isinstance(error, FileNotFoundError):
        hint = "Is the name right, and its directory in PATH?"
        if " " in command:
            hint = "It is one word: leave the quotes out, or run it by a shell: zmon run -- bash -c '…'"
        elif "=" in command:
            hint = "To set a variable: zmon run -- env NAME=VALUE command"
        return 127, ZmonError(f"cannot run {command!r}", why, hint)
    return 126, ZmonError(f"cannot run {command!r}", why, "Is it executable, and does it name its interpreter?")


def inherited() -> dict[str, str]:
    """The environment zmon was started with: Python may have added LC_CTYPE to it (PEP 538)."""
    env = {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}
    for variable in Path("/proc/self/environ").read_bytes().split(b"\0"):
        if variable.startswith(b"LC_CTYPE="):
            env["LC_CTYPE"] = os.fsdecode(variable.partition(b"=")[2])
    return env
