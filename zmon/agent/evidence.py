"""Collect evidence about a suspected rank: Python stacks, collectives in flight, and the kernel's wait channel.

The evidence comes from py-spy, torch's worker server and /proc, and is meant for people. If a part is missing, because
the rank is stopped or gone or its torch is older, the evidence has the reason instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from pathlib import Path
from typing import NamedTuple

import aiohttp

from zmon.agent.process_work import process_work, wait_channel
from zmon.agent.stacks import PY_SPY, read_stacks
from zmon.agent.worker_socket import NoSocket, WorkerSocket
from zmon.format import plain, plain_lines
from zmon.job import flight
from zmon.job.job_frame import threads
from zmon.process import ProcessId
from zmon.schema.flight import FlightRecord
from zmon.schema.standing import ProcessWork

TIMEOUT_SECONDS = 2.0  # for an answer of the worker server, which a stopped rank does not give
MAX_STACK_BYTES = 16384  # longer stacks are cut
MAX_RECORD_BYTES = 16 << 20  # 2,000 entries, torch's default, are 1 MB
_NOT_OFFERED = "this torch does not offer it"


class ProcessEvidence(NamedTuple):
    """The evidence from the process of a rank. A value that is not available is None.

    `stack_error` and `flight_error` have the reasons. A `flight_error` beside a record names its missing part.
    """

    pid: int | None = None  # None also if the process is in another PID namespace, or hidden
    wchan: str | None = None  # the kernel function in which the process waits
    stack: str | None = None  # Python stacks of all threads
    stack_error: str | None = None
    flight: FlightRecord | None = None
    flight_error: str | None = None
    work: ProcessWork | None = None


GONE = ProcessEvidence(stack_error="its process is gone", flight_error="its process is gone")


async def gather(
    process: ProcessId | None,
    socket: WorkerSocket,
    proc: Path = Path("/proc"),
    stacks: bool = True,
    flights: bool = True,
    py_spy: str | None = PY_SPY,
) -> ProcessEvidence:
    """Return what the process, its worker server and the kernel show of a rank.

    `stacks`, `flights`: whether the stacks and the flight record are wanted. `py_spy`: its path; None: not installed.
    """
    (stack, stack_error), (record, flight_error) = await asyncio.gather(
        _stacks(process, socket, py_spy, proc) if stacks else _not_requested(),
        _flight(socket) if flights else _not_requested(),
    )
    evidence = ProcessEvidence(stack=stack, stack_error=stack_error, flight=record, flight_error=flight_error)
    if process is None:
        return evidence
    work = await asyncio.to_thread(process_work, process, threads(stack or ""), proc) if stacks else None
    return evidence._replace(pid=process.pid, wchan=_wait_channel(process, proc), work=work)


def _wait_channel(process: ProcessId, proc: Path) -> str | None:
    with contextlib.suppress(OSError), process.opened(proc) as folder:
        return wait_channel(folder)
    return None


async def _not_requested() -> tuple[None, str]:
    return None, "not requested"


async def _stacks(
    process: ProcessId | None, socket: WorkerSocket, py_spy: str | None, proc: Path
) -> tuple[str | None, str | None]:
    """Return the Python stacks from py-spy, or else from the worker server; or None and both reasons."""
    stack, reason = await read_stacks(process, py_spy, proc)
    if stack is None:
        # The handler takes the interpreter lock (torch/csrc/distributed/c10d/control_plane/PythonHandlers.cpp).
        silent_when = "stopped, or in a native call that holds the interpreter lock"
        stack, error = await _ask(socket, "dump_traceback", silent_when)
        reason = f"{error}; {reason}" if error else None
    return None if stack is None else plain_lines(stack[:MAX_STACK_BYTES].decode("utf-8", "replace")), reason


async def _flight(socket: WorkerSocket) -> tuple[FlightRecord | None, str | None]:
    """Return the flight record of all backends, or None; and the reason if a part is missing."""
    answers = await asyncio.gather(*(_ask(socket, backend.request) for backend in flight.BACKENDS.values()))
    dumps = list(dict.fromkeys(dump for dump, _ in answers if dump is not None))
    missing = next((error for _, error in answers if error not in (None, _NOT_OFFERED)), None)
    if not dumps:
        return None, missing or _NOT_OFFERED
    record, error = flight.read(dumps, time.time())
    return record, error or missing


async def _ask(socket: WorkerSocket, handler: str, silent_when: str = "stopped") -> tuple[bytes | None, str | None]:
    """Return the answer of the worker server, or None and the reason. `silent_when`: when a rank does not answer."""
    limit = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    body = bytearray()
    try:
        with socket.opened() as path:
            connector = aiohttp.UnixConnector(str(path))
            async with (
                aiohttp.ClientSession(connector=connector, timeout=limit, auto_decompress=False) as session,
                session.post(f"http://rank/handler/{handler}") as response,
            ):
                while part := await response.content.read(MAX_RECORD_BYTES + 1 - len(body)):
                    body += part
    except NoSocket as error:
        return None, str(error)
    except TimeoutError:
        return None, f"the rank did not answer within {TIMEOUT_SECONDS:g} s: {silent_when}?"
    except (aiohttp.ClientError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if isinstance(error, OSError) and error.errno == errno.EACCES:
            reason += ", it is another user's and the agent has no CAP_DAC_OVERRIDE"
        return None, plain(f"cannot reach the rank's worker server: {reason}")
    if response.status == 404:
        return None, _NOT_OFFERED
    if response.status != 200:
        text = plain(body[:100].decode("utf-8", "replace"))
        return None, f"the rank answers {handler} with {response.status}: {text}"
    if len(body) > MAX_RECORD_BYTES:
        return None, f"the answer to {handler} is longer than {MAX_RECORD_BYTES >> 20} MiB"
    return bytes(body), None
