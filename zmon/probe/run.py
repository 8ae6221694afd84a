"""`zmon run`: runs a command in an environment in which every Python process that imports torch is watched.

zmon replaces its own process by the command, so exit code, signals, terminal and process group are the command's own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from zmon.errors import UsageError, ZmonError
from zmon.probe.autoload.sitecustomize import AUTOLOAD, RUN_PID, is_command, switched_off
from zmon.probe.launch import check_job_id
from zmon.probe.run_check import check_beside

JOB_ID_HELP = (
    "ID of the job. Default: ZMON_JOB_ID, else the Slurm job ID, else torchrun's --rdzv-id, else, on one node, the "
    "script and its launch."
)
LABEL_HELP = "Label of the job. Repeatable."


def run(command: Sequence[str], job_id: str | None, labels: Sequence[str]) -> NoReturn:
    """Run the command in place of zmon, or exit as a shell does if it cannot be started. Raises UsageError."""
    env = environment(inherited_environment(), job_id, labels)
    if not switched_off():
        check_beside(env[RUN_PID])
    become_or_exit(command, env)


def become_or_exit(command: Sequence[str], env: Mapping[str, str], subcommand: str = "run") -> NoReturn:
    """Replace this process by the command, or exit as a shell does. The message names the subcommand of zmon."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals, and the command would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), env)
    except OSError as error:
        exit_code, why = _refusal(command[0], error, subcommand)
        print(f"zmon: {why}", file=sys.stderr)
        sys.exit(exit_code)


def new_run_pid() -> str:
    """Return a RUN_PID for this process."""
    return f"{os.getpid()}-{os.urandom(8).hex()}"


def environment(
    env: Mapping[str, str], job_id: str | None = None, labels: Sequence[str] = (), autoload: str = AUTOLOAD
) -> dict[str, str]:
    """Return the environment of the command: zmon's sitecustomize first in PYTHONPATH, job id, and labels."""
    for label in labels:
        if "," in label or not label.partition("=")[0].strip() or "=" not in label:
            raise UsageError(
                f"--label {label!r} is not valid",
                "a label is KEY=VALUE without a comma",
                "Repeat --label for each label",
            )
    result = dict(env)
    if not is_command(env):  # else `zmon run zmon run`, which has one check
        result[RUN_PID] = new_run_pid()
    path = env.get("PYTHONPATH")  # may be empty; an empty part of it would mean the working directory
    if autoload not in (path or "").split(os.pathsep):
        result["PYTHONPATH"] = f"{autoload}{os.pathsep}{path}" if path else autoload
    if job_id is not None:
        result["ZMON_JOB_ID"] = check_job_id(job_id)
    if labels:
        result["ZMON_LABELS"] = ",".join(filter(None, [env.get("ZMON_LABELS"), *labels]))
    return result


def _refusal(command: str, error: OSError, subcommand: str) -> tuple[int, ZmonError]:
    """Return the exit code that shells use for a command that cannot be started, and the error to print."""
    reason = os.strerror(error.errno or 0).lower()
    if isinstance(error, FileNotFoundError):
        hint = "Check the name of the command, and that its directory is in PATH"
        if " " in command:
            hint = f"The whole command is one word: remove the quotes, or use a shell: zmon {subcommand} -- bash -c '…'"
        elif "=" in command:
            hint = f"To set a variable, use: zmon {subcommand} -- env NAME=VALUE command"
        return 127, ZmonError(f"cannot run {command!r}", reason, hint)
    hint = "Check that the file is executable and that its first line names its interpreter"
    return 126, ZmonError(f"cannot run {command!r}", reason, hint)


def inherited_environment() -> dict[str, str]:
    """Return the environment that zmon was started with.

    It is without the LC_CTYPE that Python may have added (PEP 538), and without what `uvx zmon` puts first in PATH.
    """
    env = {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}
    for variable in Path("/proc/self/environ").read_bytes().split(b"\0"):
        if variable.startswith(b"LC_CTYPE="):
            env["LC_CTYPE"] = os.fsdecode(variable.partition(b"=")[2])
    is_own = sys.prefix != sys.base_prefix and env.get("VIRTUAL_ENV") != sys.prefix
    if "PATH" in env and is_own and find_spec("torch") is None:
        env["PATH"] = path_without(env["PATH"], str(Path(sys.executable).parent))
    return env


def path_without(path: str, own_bin: str) -> str:
    """Return the PATH in which the command is looked up, and which it gets.

    uvx puts the environment that it made for zmon first. It has no torch, so it is not that of the job.
    """
    return os.pathsep.join(part for part in path.split(os.pathsep) if part != own_bin) or path
