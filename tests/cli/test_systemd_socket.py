"""Tests of a daemon on a socket that systemd has opened."""

import contextlib
import shutil
import subprocess
import sys
import time

import pytest
import requests
from aiohttp.test_utils import unused_port

from tests.places import REPOSITORY

needs_systemd = pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd is not installed")
TIMEOUT_SECONDS = 60.0  # a busy machine takes long to start Python


def agent(*flags, box_dir):
    """Return the command that starts an agent with these flags."""
    return [sys.executable, "-m", "zmon", "agent", "--box-dir", str(box_dir), *flags]


@contextlib.contextmanager
def activated(folder, address, *flags):
    """Let systemd open a socket at the address, and start the agent at the first request. Yield systemd's process."""
    command = agent("--web.systemd-socket", *flags, box_dir=folder / "boxes")
    process = subprocess.Popen(
        ["systemd-socket-activate", f"--listen={address}", "--setenv=PYTHONPATH", *command],
        env={"PYTHONPATH": str(REPOSITORY), "HOME": str(folder), "PATH": "/usr/bin:/bin"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def get_livez(port, process):
    """Return the answer to a request for /livez, as soon as systemd listens; None if the process has ended."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(requests.ConnectionError):
            return requests.get(f"http://127.0.0.1:{port}/livez", timeout=TIMEOUT_SECONDS)
        time.sleep(0.05)
    return None


@needs_systemd
def test_request_waits_in_the_socket_until_the_agent_has_started(tmp_path):
    port = unused_port()
    with activated(tmp_path, f"127.0.0.1:{port}", "--data-dir", str(tmp_path / "data")) as process:
        answer = get_livez(port, process)
        assert answer is not None, process.stderr.read()
        assert answer.status_code == 200


def test_daemon_without_a_socket_of_systemd_ends_with_one_line(tmp_path):
    done = subprocess.run(
        agent("--web.systemd-socket", box_dir=tmp_path), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "systemd has passed none" in done.stderr
    assert done.stderr.count("\n") == 1


@needs_systemd
def test_socket_beyond_loopback_needs_tls_and_users(tmp_path):
    port = unused_port()
    with activated(tmp_path, f"0.0.0.0:{port}") as process:
        assert get_livez(port, process) is None
        assert process.wait(timeout=TIMEOUT_SECONDS) == 2
        assert "refusing to listen on 0.0.0.0" in process.stderr.read()
