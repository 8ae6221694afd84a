"""Tests of a daemon on a socket that systemd has opened."""

import shutil
import subprocess
import sys
import time

import pytest
import requests
from aiohttp.test_utils import unused_port

from tests.places import REPOSITORY

needs_systemd = pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd is not installed")
SECONDS = 60.0


def agent(*flags, box_dir):
    return [sys.executable, "-m", "zmon", "agent", "--box-dir", str(box_dir), *flags]


@needs_systemd
def test_request_waits_in_the_socket_until_the_agent_has_started(tmp_path):
    port = unused_port()
    command = agent("--web.systemd-socket", "--data-dir", str(tmp_path / "data"), box_dir=tmp_path / "boxes")
    process = subprocess.Popen(
        ["systemd-socket-activate", f"--listen=127.0.0.1:{port}", "--setenv=PYTHONPATH", *command],
        env={"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                answer = requests.get(f"http://127.0.0.1:{port}/livez", timeout=SECONDS)
                break
            except requests.ConnectionError:  # systemd-socket-activate does not listen yet
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert answer.status_code == 200
    finally:
        process.terminate()
        process.wait(timeout=20)


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
    command = agent("--web.systemd-socket", box_dir=tmp_path)
    process = subprocess.Popen(
        ["systemd-socket-activate", f"--listen=0.0.0.0:{port}", "--setenv=PYTHONPATH", *command],
        env={"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                requests.get(f"http://127.0.0.1:{port}/livez", timeout=SECONDS)
            except requests.ConnectionError:
                if process.poll() is not None:
                    break
                time.sleep(0.05)
        assert process.poll() == 2
        assert "refusing to listen on 0.0.0.0" in process.stderr.read()
    finally:
        process.kill()
        process.wait(timeout=20)
