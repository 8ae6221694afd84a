"""Find the processes of a running stack's parts, and check that they answer."""

from __future__ import annotations

import psutil
import requests

from tests.e2e.running_stack import RunningStack


def part(stack: RunningStack, word: str) -> psutil.Process:
    """Return the process of the part whose command line contains `word`."""
    data = stack.env["ZMON_DATA_DIR"]
    boxes = stack.env["ZMON_BOX_DIR"]
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if word in line and (data in line or boxes in line):
            return process
    raise AssertionError(f"no process of the stack has {word!r} in its command line")


def is_up(url: str, login: tuple[str, str] | None = None) -> bool:
    """Return True if a GET of this URL is answered with status 200."""
    try:
        return requests.get(url, timeout=2, auth=login).status_code == 200
    except requests.RequestException:
        return False
