"""Runs nvidia-smi and reads its CSV: properties of GPUs, and the memory of processes.

nvidia-smi refuses a whole query if it does not know one of the properties. The query is then repeated with the older
name of this property, or without it.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Sequence

COMMAND = "nvidia-smi"
_TIMEOUT_SECONDS = 20.0
_FORMAT = "--format=csv,noheader,nounits"
_REFUSED = re.compile(r'Field "([^"]+)" is not a valid field')
_OLDER_PREFIXES = {"clocks_event_reasons.": "clocks_throttle_reasons."}  # before driver R535
Row = dict[str, str]  # text by property


class SmiFailed(Exception):
    """nvidia-smi gave no usable answer; the message says why."""


def query(properties: Sequence[str], what: str = "gpu", command: str = COMMAND) -> list[Row]:
    """Return the properties of each GPU, or of each process for `compute-apps`; unknown properties are left out."""
    names = {name: name for name in properties}  # the name in the query, by property
    while names:
        code, output = _run((command, f"--query-{what}={','.join(names.values())}", _FORMAT))
        refused = _REFUSED.search(output)
        if refused is None:
            if code:
                raise SmiFailed(output.strip().partition("\n")[0] or f"exit code {code}")
            return rows(output, tuple(names))
        names = _without(names, refused[1])
    return []


def rows(text: str, properties: Sequence[str]) -> list[Row]:
    """Return the lines of CSV as texts by property. Raises SmiFailed if a line has another number of cells."""
    lines = [line for line in csv.reader(text.splitlines(), skipinitialspace=True) if line]
    if any(len(line) != len(properties) for line in lines):
        raise SmiFailed(f"it answers with another number of values: {text[:100]!r}")
    return [dict(zip(properties, line, strict=True)) for line in lines]


def value(text: str) -> float | bool | str | None:
    """Return a number, a boolean or a text; None if the GPU does not offer the property."""
    text = text.strip()
    if text in ("Active", "Enabled", "Yes"):
        return True
    if text in ("Not Active", "Disabled", "No"):
        return False
    if not text or text == "N/A" or text.startswith("["):  # [N/A], [Not Supported], [Unknown Error]
        return None
    try:
        return float(text)
    except ValueError:
        return text


def process_bytes(pid: int, command: str = COMMAND) -> int | None:
    """Return the memory of a process on all GPUs; None if nvidia-smi does not list it, as in another PID namespace."""
    answers = query(("pid", "used_gpu_memory"), "compute-apps", command)
    used = [value(row["used_gpu_memory"]) for row in answers if row["pid"] == str(pid)]
    numbers = [number for number in used if isinstance(number, float)]
    return int(sum(numbers)) << 20 if numbers else None


def _without(names: dict[str, str], refused: str) -> dict[str, str]:
    """Return the names, by property, with the older name of the refused property, or without this property."""
    if refused not in names.values():
        raise SmiFailed(f"it refuses {refused!r}, which is not in the query")
    accepted = {}
    for name, queried in names.items():
        prefix = next((prefix for prefix in _OLDER_PREFIXES if queried.startswith(prefix)), None)
        if queried != refused:
            accepted[name] = queried
        elif prefix is not None:
            accepted[name] = _OLDER_PREFIXES[prefix] + queried.removeprefix(prefix)
    return accepted


def _run(arguments: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except FileNotFoundError:
        raise SmiFailed("nvidia-smi is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SmiFailed(str(error)) from error
    return done.returncode, done.stdout + done.stderr
