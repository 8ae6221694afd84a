"""Collect evidence about a suspected rank: Python stacks, collectives in flight, and the kernel's wait channel.

It comes from py-spy, torch's worker server and /proc, and is meant for people. If a part is missing, because the rank
is stopped or gone or its torch is older, the evidence has the reason instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import aiohttp

from zmon.agent.process_work import process_work, wait_channel
from zmon.agent.worker_socket import NoSocket, WorkerSocket
from zmon.format import plain, plain_lines
from zmon.job import flight
from zmon.job.job_frame import threads
from zmon.process import ProcessId
from zmon.schema.flight import FlightRecord

TIMEOUT_SECONDS = 2.0
MAX_STACK_BYTES = 16384
PY_SPY = shutil.which("py-spy", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
PY_SPY_SECONDS = 2.0  # it takes about 20 ms
_HEADER = re.compile(rb"\AProcess \d+: .*^(?=Python v)", re.MULTILINE | re.DOTALL)  # of its answer
MAX_RECORD_BYTES = 16 << 20  # 2,000 entries, torch's default, are 1 MB
_ABSENT = "this torch does not offer it"

GONE = {
    **dict.fromkeys(("pid", "wchan", "stack", "flight", "work")),
    **dict.fromkeys(("stack_error", "flight_error"), "its process is gone"),
}


async def gather(
    process: ProcessId | None,
    socket: WorkerSocket,
    proc: Path = Path("/proc"),
    stacks: bool = True,
    flights: bool = True,
    py_spy: str | None = PY_SPY,
) -> dict[str, Any]:
    """Return `wchan` (the kernel function it waits in), `stack` (Python stacks), `flight` and `work` (`ProcessWork`).

    A value that cannot be had is None, with the reason in `stack_error` or `flight_error`. A `flight_error` beside a
    record names the part of it that is missing.
    """
    stack, record = await asyncio.gather(
        _stacks(process, socket, py_spy, proc) if stacks else _not_requested(),
        _flight(socket) if flights else _not_requested(),
    )
    return {
        "pid": process.pid if process else None,
        "wchan": _wait_channel(process, proc) if process else None,
        "stack": stack[0],
        "stack_error": stack[1],
        "flight": record[0],
        "flight_error": record[1],
        "work": await asyncio.to_thread(process_work, process, threads(stack[0] or ""), proc)
        if stacks and process
        else None,
    }


def _wait_channel(process: ProcessId, proc: Path) -> str | None:
    with contextlib.suppress(OSError), process.opened(proc) as folder:
        return wait_channel(folder)
    return None


async def _not_requested() -> tuple[None, str]:
    return None, "not requested"


async def _stacks(
    process: ProcessId | None, socket: WorkerSocket, py_spy: str | None, proc: Path
) -> tuple[str | None, str | None]:
    stack, reason = await read_stacks(process, py_spy, proc)
    if stack is None:
        # The handler takes the interpreter lock (torch/csrc/distributed/c10d/control_plane/PythonHandlers.cpp).
        silent_when = "stopped, or in a native call that holds the interpreter lock"
        stack, error = await _ask(socket, "dump_traceback", silent_when)
        reason = f"{error}; {reason}" if error else None
    return None if stack is None else plain_lines(stack[:MAX_STACK_BYTES].decode("utf-8", "replace")), reason


async def _flight(socket: WorkerSocket) -> tuple[FlightRecord | None, str | None]:
    answers = await asyncio.gather(*(_ask(socket, backend.request) for backend in flight.BACKENDS.values()))
    dumps = list(dict.fromkeys(dump for dump, _ in answers if dump is not None))
    missing = next((error for _, error in answers if error not in (None, _ABSENT)), None)
    if not dumps:
        return None, missing or _ABSENT
    record, error = flight.read(dumps, time.time())
    return record, error or missing


async def _ask(socket: WorkerSocket, handler: str, silent_when: str = "stopped") -> tuple[bytes | None, str | None]:
    """Return the answer of the worker server, or None and the reason."""
    try:
        with socket.opened() as path:
            return await _ask_at(path, handler, silent_when)
    except NoSocket as reason:
        return None, str(reason)


async def _ask_at(path: Path, handler: str, silent_when: str) -> tuple[bytes | None, str | None]:
    limit = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    body = bytearray()
    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(path)), timeout=limit, auto_decompress=False
            ) as session,
            session.post(f"http://rank/handler/{handler}") as response,
        ):
            while part := await response.content.read(MAX_RECORD_BYTES + 1 - len(body)):
                body += part
    except TimeoutError:
        return None, f"the rank did not answer within {TIMEOUT_SECONDS:g} s: {silent_when}?"
    except (aiohttp.ClientError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if isinstance(error, OSError) and error.errno == errno.EACCES:
            reason += ", it is another user's and the agent has no CAP_DAC_OVERRIDE"
        return None, plain(f"cannot reach the rank's worker server: {reason}")
    if response.status == 404:
        return None, _ABSENT
    if response.status != 200:
        text = plain(body[:100].decode("utf-8", "replace"))
        return None, f"the rank answers {handler} with {response.status}: {text}"
    if len(body) > MAX_RECORD_BYTES:
        return None, f"the answer to {handler} is longer than {MAX_RECORD_BYTES >> 20} MiB"
    return bytes(body), None


async def read_stacks(
    process: ProcessId | None, command: str | None = PY_SPY, proc: Path = Path("/proc")
) -> tuple[bytes | None, str | None]:
    """Return the Python stacks of all threads out of a process's memory, or None and the reason in one line.

    The process need not answer, run, or release its interpreter lock. It is not stopped either (`--nonblocking`,
    process_vm_readv(2)), so what changes during the read may come out wrong; a rank that hangs does not change. Reading
    needs the right to trace the process (ptrace(2)): the same user where Yama allows that, else CAP_SYS_PTRACE.

    Paths are complete: they show which frames are the job's own (zmon/job/job_frame.py).

    py-spy begins with the command line of the process. It is cut off, since people pass tokens on command lines.
    """
    if command is None:
        return None, "py-spy is not installed beside the agent"
    if process is None:
        reason = "its process is in another PID namespace, or hidden from the agent"
        return None, f"{reason}: run it in the host's (hostPID), with CAP_SYS_PTRACE"
    return await asyncio.to_thread(_stacks_of, process, command, proc)


def _stacks_of(process: ProcessId, command: str, proc: Path) -> tuple[bytes | None, str | None]:
    """Run py-spy, which knows a process by its number only: what it read counts if that process still lives."""
    try:
        with process.opened(proc):
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
    stacks, num_headers = _HEADER.subn(b"", result.stdout)
    if not num_headers:
        return None, "py-spy's answer has an unknown format: check `py-spy --version` on that host"
    return stacks, None
