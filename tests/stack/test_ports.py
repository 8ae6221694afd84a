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

pytestmark = pytest.mark.e2e
SERVER = """
import http.server, sys
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.BaseHTTPRequestHandler)
print("listens", flush=True)
server.serve_forever()
"""
STACK = """
import asyncio, signal, sys
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
        print("urls", *(f"{name}={url}" for name, url in vars(stack.urls).items()), flush=True)
        print("unhealthy", await stack.unhealthy(), flush=True)
        await asyncio.sleep(60)
    finally:
        await stack.stop()
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
asyncio.run(main())
"""


@contextlib.contextmanager
def stranger(port):
    """Run a server of another program on this port."""
    with subprocess.Popen([sys.executable, "-S", "-E", "-c", SERVER, str(port)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"listens\n"
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def reserved_port(preferred):
    """Reserve a port for a block; the value is its number."""
    reserved = ReservedPort(preferred)
    try:
        yield reserved.number
    finally:
        reserved.release()


def free_ports(number):
    """Return different ports that nobody uses at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [server.getsockname()[1] for server in sockets]


def test_reserved_port_is_the_preferred_one():
    port = free_port()
    for _ in range(2):  # again after its release
        with reserved_port(port) as number:
            assert number == port


def test_port_that_another_stack_has_reserved_is_not_reserved():
    port = free_port()
    with reserved_port(port) as first, reserved_port(port) as second, reserved_port(0) as third:
        assert len({first, second, third}) == 3


def test_port_of_a_stranger_is_not_reserved():
    port = free_port()
    with stranger(port), reserved_port(port) as number:
        assert number != port


def test_no_other_program_gets_a_reserved_port():
    with reserved_port(0) as port, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))


def test_part_can_listen_on_a_reserved_port():
    with reserved_port(0) as port:
        for _ in range(2):  # again after a restart, with connections that are still closing
            with stranger(port) as part:
                assert listens([part.pid], port)
                socket.create_connection(("127.0.0.1", port)).close()


def test_listener_is_known_by_its_process():
    with stranger(port := free_port()) as process:
        assert listens([process.pid], port)
        assert listens([os.getpid(), process.pid], port)
        assert not listens([os.getpid()], port)
        assert not listens([process.pid], port + 1)
    assert not listens([process.pid], port)


def test_two_stacks_that_start_at_once_share_no_port(start_rank):
    """Both want the same ports; a stranger answers on that of the hub."""
    names = ("agent", "hub", "prometheus", "alertmanager", "dashboard")
    ports = dict(zip([f"{name}_port" for name in names], free_ports(len(names)), strict=True))
    with stranger(ports["hub_port"]):
        stacks = [start_rank(STACK.replace("PORTS", repr(ports))) for _ in range(2)]
        assert eventually(lambda: all("unhealthy" in stack.output for stack in stacks), 60), stacks[0].output
        first, second = (dict(url.split("=") for url in stack.says("urls").split()) for stack in stacks)
        assert [stack.says("unhealthy") for stack in stacks] == ["[]", "[]"]
        for stack in stacks:
            stack.signal(signal.SIGTERM)
            stack.wait()
    assert first.keys() == second.keys() == set(names)
    assert len({*first.values(), *second.values()}) == 2 * len(names)
    assert f"http://127.0.0.1:{ports['hub_port']}" not in (*first.values(), *second.values())
    assert f"http://127.0.0.1:{ports['agent_port']}" in (first["agent"], second["agent"])
