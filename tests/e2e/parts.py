"""The parts of a standing stack as processes."""

from __future__ import annotations

import psutil
import requests

from tests.e2e.standing import Running


def part(stack: Running, word: str) -> psutil.Process:
    """The process of one part of the stack."""
    data = stack.env["ZMON_DATA_DIR"]
    boxes = stack.env["ZMON_BOX_DIR"]
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if word in line and (data in line or boxes in line):
            return process
    raise AssertionError(f"no process of {word}")


def answers(url: str) -> bool:
    """Whether a URL answers 200."""
    try:
        return requests.get(url, timeout=2).status_code == 200
    except requests.RequestException:
        return False
