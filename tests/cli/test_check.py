"""Tests of `zmon check --host`: one line, the exit codes of node-problem-detector, and a deadline."""

import socket

import msgspec
import pytest
from aiohttp.test_utils import unused_port

from tests.build import agent_report
from zmon.doctor.host_state import MAX_LINE_LENGTH
from zmon.schema.host import GpuSample, HostSample


@pytest.fixture
def check(command, fake_server):
    """Return a function that checks the host of an agent with this answer."""
    return lambda body: command("check", "--host", "--agent", fake_server(lambda *_: body).url)


def reported(*gpus):
    """Return the report of an agent with these GPUs."""
    return {**msgspec.to_builtins(agent_report()), "sample": HostSample(gpus=gpus)}


def test_host_without_a_fault_exits_with_0(check):
    assert check(reported(GpuSample("0", "GPU-a"))) == (0, "1 GPU without a fault\n", "")


def test_fault_exits_with_1_and_one_short_line(check):
    code, out, err = check(reported(*(GpuSample(str(n), f"GPU-{n}", lost=True) for n in range(8))))
    assert (code, err) == (1, "")
    assert out.startswith("fault: GPU 0: it fell off the bus")
    assert out.count("\n") == 1
    assert len(out.rstrip("\n")) <= MAX_LINE_LENGTH


def test_agent_that_does_not_run_is_unknown(command):
    code, out, _ = command("check", "--host", "--agent", f"http://127.0.0.1:{unused_port()}")
    assert code == 2
    assert out.startswith("cannot reach")


def test_answer_of_something_else_is_unknown(check):
    assert check(b"<html>").code == 2


@pytest.mark.timeout(30)  # without a deadline it would take a minute
def test_agent_that_hangs_is_unknown_after_a_deadline(command):
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        code, out, _ = command("check", "--host", "--agent", f"http://127.0.0.1:{hanging.getsockname()[1]}")
    assert code == 2
    assert "did not answer within 1.5 s" in out
    assert out.count("\n") == 1


def test_check_without_host_is_misuse(command):
    code, _, err = command("check")
    assert code == 2
    assert "--host" in err
    assert err.count("\n") == 1
