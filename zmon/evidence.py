"""What a suspected rank is stuck in: asked of torch's worker server and the kernel, never of its Python.

The answers are evidence for a person; where the rank cannot give them (stopped, gone, an older torch) that is said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

STACK_TIMEOUT_SECONDS = 2.0
MAX_STACK_BYTES = 16384


async def gather(pid: int, socket: Path, proc: Path = Path("/proc")) -> dict[str, Any]:
    """`wchan` (where the kernel holds it) and `stack` (Python stacks); None with the reason in `stack_error`."""
    served = socket.is_socket()
    stack, error = await _stacks(str(socket)) if served else (None, "the job has no worker server (torch < 2.9?)")
    return {"pid": pid, "wchan": _wchan(pid, proc), "stack": stack, "stack_error": error}


async def _stacks(socket: str) -> tuple[str | None, str | None]:
    limit = aiohttp.ClientTimeout(total=STACK_TIMEOUT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket), timeout=limit) as session,
            session.post("http://rank/handler/dump_traceback") as response,
        ):
            return (await response.read())[:MAX_STACK_BYTES].decode("utf-8", "replace"), None
    except TimeoutError:
        return None, f"the rank did not answer within {STACK_TIMEOUT_SECONDS:g} s (stopped?)"
    except (aiohttp.ClientError, OSError) as error:
        return None, f"the rank cannot be asked: {error}"


def _wchan(pid: int, proc: Path) -> str | None:
    try:
        return (proc / str(pid) / "wchan").read_text() or None
    except OSError:
        return None
