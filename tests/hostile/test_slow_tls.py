"""1,000 clients that are slow to speak TLS keep nobody from an agent: in the handshake, and in a request after it."""

import contextlib
import resource
import socket
import ssl
import subprocess
import sys
import time

import psutil
import pytest
from aiohttp.test_utils import unused_port

from tests.boxes import eventually
from tests.places import REPOSITORY
from tests.web.certificates import Certificates
from zmon.web.handshake import HANDSHAKE_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # it waits until handshakes take too long

CLIENTS = 1_000
FILES = 1_024  # that the agent may open
START_SECONDS = 30.0  # until the agent answers
END_SECONDS = 60.0  # until it has closed the files of clients that left
OWN_FILES = 16  # the agent opens and closes some itself
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the first bytes of one, by RFC 8446
KINDS = ("silent", "half a ClientHello", "half a request")


@pytest.fixture
def certificates(tmp_path):
    """The authority of agent and scraper."""
    return Certificates(tmp_path)


@pytest.fixture
def agent(tmp_path, certificates):
    """An agent that may open 1,024 files, asks for certificates, and writes a log; yields process, port and log."""
    certificates.issue("agent", "127.0.0.1")
    (tmp_path / "web.yaml").write_text(
        "tls_server_config: {cert_file: agent.pem, key_file: agent.key, client_ca_file: ca.pem, "
        "client_auth_type: VerifyClientCertIfGiven}\n"
    )
    port, log = unused_port(), tmp_path / "log"
    command = [sys.executable, "-m", "zmon", "agent", "--port", str(port), "--box-dir", str(tmp_path / "boxes")]
    command += ["--data-dir", str(tmp_path / "data"), "--web.config.file", str(tmp_path / "web.yaml")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=file, stderr=file,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        )  # fmt: skip
    try:
        yield psutil.Process(process.pid), port, log
    finally:
        process.terminate()
        process.wait(timeout=20)


class Scraper:
    """A client with a certificate, which makes a new connection for each request."""

    def __init__(self, certificates, port):
        self.port, self.context = port, certificates.client(certificates.issue("prometheus", "prometheus.test"))

    def is_answered(self):
        """Return True if /metrics is answered with status 200."""
        with contextlib.suppress(OSError):
            plain = socket.create_connection(("127.0.0.1", self.port), timeout=10)
            with plain, self.context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                secure.sendall(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
                return secure.recv(32).startswith(b"HTTP/1.0 200 OK")
        return False


def slow_client(kind, port, context):
    """Return the connection of a client that stops in the middle."""
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    if kind == "half a ClientHello":
        client.sendall(CLIENT_HELLO)
    elif kind == "half a request":
        client = context.wrap_socket(client, server_hostname="127.0.0.1")
        client.sendall(b"GET /metrics HTTP/1.1\r\nX-")
    return client


def is_closed(client):
    """Return True if the server has closed this connection."""
    try:
        client.setblocking(False)
        return client.recv(1) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


def test_slow_clients_keep_nobody_from_the_agent(agent, certificates):
    process, port, log = agent
    scraper, trusting = Scraper(certificates, port), certificates.client()
    assert eventually(scraper.is_answered, START_SECONDS)
    before = process.num_fds()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * CLIENTS), hard))
    clients = {kind: [] for kind in KINDS}
    try:
        for number in range(CLIENTS):
            kind = KINDS[number % len(KINDS)]
            with contextlib.suppress(OSError):  # the oldest ones are closed to make room for it
                clients[kind].append(slow_client(kind, port, trusting))
            if number % 50 == 0:
                assert scraper.is_answered()
        slow_since = time.monotonic()
        most_files = 0
        while time.monotonic() < slow_since + HANDSHAKE_SECONDS + 5:
            assert scraper.is_answered()
            most_files = max(most_files, process.num_fds())
            time.sleep(0.2)
        assert most_files < FILES
        assert all(map(is_closed, clients["silent"]))
        assert all(map(is_closed, clients["half a ClientHello"]))
    finally:
        for client in (client for kind in KINDS for client in clients[kind]):
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert eventually(lambda: process.num_fds() <= before + OWN_FILES, END_SECONDS)
    assert log.stat().st_size < 1_000_000
