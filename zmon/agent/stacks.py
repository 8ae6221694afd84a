"""Read the Python stacks of a process out of its memory, with py-spy.

The process need not answer, run, or release its interpreter lock. It is not stopped either (`--nonblocking`,
process_vm_readv(2)), so what changes during the read may come out wrong; a rank that hangs does not change. Reading
needs the right to trace the process (ptrace(2)): the same user where Yama allows that, else CAP_SYS_PTRACE.
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

_HEADER = re.compile(rb"\AProcess \d+: .*^(?=Python v)", re.MULTILINE | re.DOTALL)
TIMEOUT_SECONDS = 2.0  # py-spy takes about 20 ms
PY_SPY = shutil.which("py-spy", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))


async def read(pid: int, command: str | None = PY_SPY) -> tuple[bytes | None, str | None]:
    """Return the stacks of all threads, or None and the reason in one line.

    Paths are complete: they show which frames are the job's own (zmon/job/job_frame.py).

    py-spy begins with the command line of the process. It is cut off, since people pass tokens on command lines.
    """
    if command is None:
        return None, "py-spy is not installed beside the agent"
    if pid <= 0:
        return None, "its process is in another PID namespace: run the agent in the host's (hostPID)"
    return await asyncio.to_thread(_read, pid, command)


def _read(pid: int, command: str) -> tuple[bytes | None, str | None]:
    arguments = [command, "dump", "--nonblocking", "--full-filenames", "--pid", str(pid)]
    try:
        result = subprocess.run(arguments, stdin=DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except OSError as error:
        return None, f"cannot run {command}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return None, f"py-spy did not end within {TIMEOUT_SECONDS:g} s"
    if result.returncode != 0 or not result.stdout:
        error_line = result.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        return None, plain(f"py-spy cannot read it: {error_line.removeprefix('Error: ')}")
    stacks, num_headers = _HEADER.subn(b"", result.stdout)
    if not num_headers:
        return None, "py-spy's answer has an unknown format: check `py-spy --version` on that host"
    return stacks, None
