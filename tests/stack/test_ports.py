"""Tests of the ports of the stack: reserved against another stack and strangers, and checked for who listens."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.boxes import eventually
from tests.ports import free_port
from zmon.stack.ports import ReservedPort, listens

pytestmark = pytest.mark.e2e  # small processes of its own
SERVER = """
import http.server, sys
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.BaseHTTPRequestHandler)
print("listens", flush=True)
server.serve_forever()
"""
STACK = """
import asyncio, sys
from pathlib import Path
from zmon.stack import Stack, StackConfig
folder, ports = Path(__file__).with_suffix(""), PORTS
class Quick(Stack):
    has_dashboard = False  # Streamlit takes several seconds to start
async def main():
    stack = Quick(StackConfig(folder / "data", folder / "boxes", "node-a", **ports), lambda line: None)
    try:
        await stack.start()
        await stack.ready()
        print("urls", *vars(stack.urls).values(), flush=True)
        print("unhealthy", await stack.unhealthy(), flush=True)
        await asyncio.sleep(60)
    finally:
        await stack.stop()
import signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
asyncio.run(main())
"""


@contextlib.contextmanager
def stranger(port):
    """Run a server of another program on this port."""
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"listens\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_reserved_port_is_the_preferred_one_unless_it_is_in_use():
    port = free_port()
    first = ReservedPort(port)
    second, third = ReservedPort(port), ReservedPort(0)
    assert first.number == port
    assert len({first.number, second.number, third.number}) == 3
    first.release()
    again = ReservedPort(port)
    assert again.number == port
    for reserved in (second, third, again):
        reserved.release()


def test_port_of_a_stranger_is_not_reserved():
    port = free_port()
    with stranger(port):
        reserved = ReservedPort(port)
        assert reserved.number != port
        reserved.release()


def test_part_can_listen_on_a_reserved_port_and_no_other_program_gets_it():
    reserved = ReservedPort(0)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", reserved.number))
    for _ in range(2):  # again after a restart, with connections that are still closing
        with stranger(reserved.number) as part:
            assert listens([part.pid], reserved.number)
            socket.create_connection(("127.0.0.1", reserved.number)).close()
    reserved.release()


def test_listener_is_known_by_its_process():
    with stranger(port := free_port()) as process:
        assert listens([process.pid], port)
        assert listens([os.getpid(), process.pid], port)
        assert not listens([os.getpid()], port)
        assert not listens([process.pid], port + 1)
    assert not listens([process.pid], port)


def test_two_stacks_at_the_same_instant_and_a_stranger_share_no_port(start_rank):
    """Both want the same ports; a stranger answers on one of them."""
    names = ("agent", "hub", "prometheus", "alertmanager", "dashboard")
    ports = {f"{name}_port": free_port() for name in names}
    with stranger(ports["hub_port"]):
        stacks = [start_rank(STACK.replace("PORTS", repr(ports))) for _ in range(2)]
        assert eventually(lambda: all("unhealthy" in stack.output for stack in stacks), 60), stacks[0].output
        urls = [stack.says("urls").split() for stack in stacks]
        assert [stack.says("unhealthy") for stack in stacks] == ["[]", "[]"]
        for stack in stacks:
            stack.signal(signal.SIGTERM)
            stack.wait()
    assert len({*urls[0], *urls[1]}) == 2 * len(names)
    assert f"http://127.0.0.1:{ports['hub_port']}" not in (*urls[0], *urls[1])
    assert f"http://127.0.0.1:{ports['agent_port']}" in (urls[0][0], urls[1][0])
