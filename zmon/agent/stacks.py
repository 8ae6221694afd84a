"""Read the Python stacks of a process with py-spy, which needs no help from the process.

The process need not answer, run, or release its interpreter lock. py-spy does not stop it either (`--nonblocking`,
process_vm_readv(2)), so stacks that change during the read may come out wrong; a rank that hangs does not change.
Reading needs the right to trace the process (ptrace(2)): the same user where Yama allows that, else CAP_SYS_PTRACE.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL

from zmon.format import plain
from zmon.process import ProcessId

PY_SPY = shutil.which("py-spy", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
PY_SPY_SECONDS = 2.0  # it takes about 20 ms
# py-spy's answer begins with the command line of the process, which may have tokens, so this part is removed.
_COMMAND_LINE = re.compile(rb"\AProcess \d+: .*^(?=Python v)", re.MULTILINE | re.DOTALL)


async def read_stacks(
    process: ProcessId | None, command: str | None = PY_SPY, proc: Path = Path("/proc")
) -> tuple[bytes | None, str | None]:
    """Return the Python stacks of all threads of a process, or None and the reason in one line.

    Paths are complete: they show which frames are the job's own (zmon/job/job_frame.py).
    """
    if command is None:
        return None, "py-spy is not installed beside the agent"
    if process is None:
        reason = "its process is in another PID namespace, or hidden from the agent"
        return None, f"{reason}: run it in the host's (hostPID), with CAP_SYS_PTRACE"
    return await asyncio.to_thread(_read, process, command, proc)


def _read(process: ProcessId, command: str, proc: Path) -> tuple[bytes | None, str | None]:
    """Run py-spy, which identifies a process only by its pid. The answer counts only if the process still lives."""
    try:
        with process.opened(proc):  # raises OSError at the end of the block if it has ended
            answer = _run_py_spy(process.pid, command)
    except OSError as error:
        return None, f"{error.strerror}"
    return answer


def _run_py_spy(pid: int, command: str) -> tuple[bytes | None, str | None]:
    arguments = [command, "dump", "--nonblocking", "--full-filenames", "--pid", str(pid)]
    try:
        result = subprocess.run(arguments, stdin=DEVNULL, capture_output=True, timeout=PY_SPY_SECONDS, check=False)
    except OSError as error:
        return None, f"cannot run {command}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return None, f"py-spy did not end within {PY_SPY_SECONDS:g} s"
    if result.returncode != 0 or not result.stdout:
        error_line = result.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        return None, plain(f"py-spy cannot read it: {error_line.removeprefix('Error: ')}")
    stacks, num_command_lines = _COMMAND_LINE.subn(b"", result.stdout)
    if not num_command_lines:
        return None, "py-spy's answer has an unknown format: check `py-spy --version` on that host"
    return stacks, None
