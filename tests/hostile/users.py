"""Run code as another user of this machine, in a child process, and give files to that user. Needs root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ANN, BOB, AGENT_UID = 65534, 12345, 23456  # uids; none needs an account
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")

_BECOME = """
import encodings.idna, json, os, socket, sys, urllib.error, urllib.request  # the user may not reach these files
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
"""


def become(uid: int) -> str:
    """Return the lines with which a script becomes that user, after its imports."""
    return _BECOME.format(uid=uid)


def as_agent(*capabilities: str) -> list[str]:
    """Return the beginning of a command that runs the rest as the agent's user, with these capabilities only."""
    flags = ",".join(("-all", *(f"+{name}" for name in capabilities)))
    return [
        "setpriv", f"--reuid={AGENT_UID}", f"--regid={AGENT_UID}", "--clear-groups", f"--inh-caps={flags}",
        f"--ambient-caps={flags}", f"--bounding-set={flags}", "--no-new-privs",
    ]  # fmt: skip


def run_as(uid: int, code: str) -> Any:
    """Run code as that user; return what it stores in `result`, as JSON, or the name of its exception."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    end = "except Exception as e:\n    result = type(e).__name__\nprint(json.dumps(result))"
    script = f"{become(uid)}\nresult = None\ntry:\n{body}\n{end}"
    done = subprocess.run([sys.executable, "-E", "-c", script], capture_output=True, text=True, timeout=30, check=True)
    return json.loads(done.stdout)


def give(folder: Path, uid: int) -> None:
    """Give a folder and all in it to a user."""
    for parent, folders, files in os.walk(folder):
        for name in ("", *folders, *files):
            os.chown(os.path.join(parent, name), uid, -1, follow_symlinks=False)  # noqa: PTH118


def get_as(uid: int, url: str) -> tuple[int, dict[str, Any]]:
    """Send a GET request as that user; return status and JSON."""
    status, body = run_as(
        uid,
        f"""
        try:
            with urllib.request.urlopen({url!r}, timeout=20) as answer:
                result = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            result = error.code, error.read().decode()
        """,
    )
    return status, json.loads(body)
