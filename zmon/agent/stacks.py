"""Python stacks of a process, read out of its memory by py-spy.

The process need not answer, nor run, nor let go of its interpreter lock, and it is not stopped for it (`--nonblocking`,
process_vm_readv(2)): what changes in that moment may read wrong, and a rank that hangs does not change. Takes the right
to trace it (ptrace(2)): the same user where Yama allows that, else CAP_SYS_PTRACE.
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

_ABOVE = re.compile(rb"\AProcess \d+: .*^(?=Python v)", re.MULTILINE | re.DOTALL)
TIMEOUT_SECONDS = 2.0  # it takes 20 ms
PY_SPY = shutil.which("py-spy", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))


async def read(pid: int, command: str | None = PY_SPY) -> tuple[bytes | None, str | None]:
    """The stacks of all threads, or None and one line why not.

    py-spy begins with the command line, on as many lines as that has. It goes no further: tokens are passed on it.
    """
    if command is None:
        return None, "py-spy is not installed beside the agent"
    if pid <= 0:
        return None, "its process is not seen from here: run the agent in the host's PID namespace"
    return await asyncio.to_thread(_read, pid, command)


def _read(pid: int, command: str) -> tuple[bytes | None, str | None]:
    asked = [command, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        ended = subprocess.run(asked, stdin=DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except OSError as error:
        return None, f"cannot run {command}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return None, f"py-spy did not end within {TIMEOUT_SECONDS:g} s"
    if ended.returncode != 0 or not ended.stdout:
        said = ended.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        return None, f"py-spy cannot read it: {said.removeprefix('Error: ')}"
    told, found = _ABOVE.subn(b"", ended.stdout)
    return (told, None) if found else (None, "py-spy's answer is not understood: `py-spy --version` on that host?")
