"""Prometheus, Alertmanager, agent and hub with the same --web.config.file answer the same clients with the same status.

Prometheus is the oracle. zmon differs on purpose where a new file is broken: it keeps the old one, and Prometheus
answers 500, or ends the handshake.
"""

import base64
import contextlib
import http.client
import shutil
import socket
import ssl
import subprocess
import sys
import time

import bcrypt
import pytest
import yaml
from aiohttp.test_utils import unused_port

from tests.web.certificates import Certificates
from zmon.stack import find_program

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # it starts twelve servers

START_SECONDS = 30.0
NAMES = ("prometheus", "alertmanager", "agent", "hub")
PASSWORD = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
TLS = {"cert_file": "server.pem", "key_file": "server.key"}
USERS = {"basic_auth_users": {"ann": PASSWORD}}
CONFIGS = {
    "users": USERS,
    "TLS and users": {"tls_server_config": TLS} | USERS,
    "client certificates": {
        "tls_server_config": TLS | {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.pem"}
    },
}


class Client:
    """A client: its certificate, its TLS version, its password, and the authority that it trusts."""

    def __init__(self, ours, pair=None, version=None, login=None, name="127.0.0.1"):
        self.context, self.login, self.name = ours.client(pair, version), login, name

    def status(self, port, tls):
        """Return the status that it gets for /metrics, or "no connection"."""
        context = self.context if tls else None
        headers = {"Authorization": "Basic " + self.login} if self.login else {}
        try:
            if context is not None:
                connection = http.client.HTTPSConnection(self.name, port, timeout=10, context=context)
            else:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            with contextlib.closing(connection):
                connection.request("GET", "/metrics", headers=headers)
                return connection.getresponse().status
        except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
            return "no connection"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web")
    (folder / "stranger").mkdir()
    return folder


@pytest.fixture(scope="module")
def ours(folder):
    ours = Certificates(folder)
    ours.issue("server", "127.0.0.1")
    return ours


def commands(folder, web, ports):
    """Return the command of each server."""
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
    (folder / "alertmanager.yml").write_text("route: {receiver: a}\nreceivers: [{name: a}]\n")
    return {
        "prometheus": [
            find_program("prometheus"), f"--config.file={folder / 'prometheus.yml'}", f"--web.config.file={web}",
            f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{ports['prometheus']}",
        ],
        "alertmanager": [
            find_program("prometheus-alertmanager", "alertmanager"), f"--config.file={folder / 'alertmanager.yml'}",
            f"--web.config.file={web}", f"--storage.path={folder / 'am'}", "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{ports['alertmanager']}",
        ],
        "agent": [
            sys.executable, "-m", "zmon", "agent", "--port", str(ports["agent"]), "--box-dir", str(folder / "boxes"),
            "--data-dir", str(folder / "agent"), "--web.config.file", str(web),
        ],
        "hub": [
            sys.executable, "-m", "zmon", "hub", "--port", str(ports["hub"]), "--agents", "http://127.0.0.1:1",
            "--data-dir", str(folder / "hub"), "--web.config.file", str(web),
        ],
    }  # fmt: skip


@pytest.fixture(scope="module", params=CONFIGS)
def servers(request, folder, ours):
    """The ports of all servers with one configuration, its name and its file."""
    directory = folder / request.param.replace(" ", "-")
    shutil.copytree(folder, directory, ignore=shutil.ignore_patterns(*(name.replace(" ", "-") for name in CONFIGS)))
    web = directory / "web.yaml"
    web.write_text(yaml.safe_dump(CONFIGS[request.param]))
    ports = {name: unused_port() for name in NAMES}
    processes = [
        subprocess.Popen(command, stdout=(directory / f"{name}.log").open("wb"), stderr=subprocess.STDOUT)
        for name, command in commands(directory, web, ports).items()
    ]
    try:
        for name, port in ports.items():
            _await_port(name, port)
        yield ports, request.param, web
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=20)


def _await_port(name, port):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError(f"{name} does not listen")


def login(user, password):
    return base64.b64encode(f"{user}:{password}".encode()).decode()


RIGHT = {"login": login("ann", "secret")}
CLIENTS = {  # by what is special about them: their certificate, password and so on
    "right": lambda ours, stranger, good: Client(ours, good, **RIGHT),
    "no password": lambda ours, stranger, good: Client(ours, good),
    "wrong password": lambda ours, stranger, good: Client(ours, good, login=login("ann", "wrong")),
    "unknown user": lambda ours, stranger, good: Client(ours, good, login=login("bob", "secret")),
    "no certificate": lambda ours, stranger, good: Client(ours, **RIGHT),
    "certificate of another authority": lambda ours, stranger, good: Client(
        ours, stranger.issue("hub", "hub.example.org"), **RIGHT
    ),
    "expired certificate": lambda ours, stranger, good: Client(
        ours, ours.issue("old", "hub.example.org", expired=True), **RIGHT
    ),
    "TLS 1.1": lambda ours, stranger, good: Client(ours, good, ssl.TLSVersion.TLSv1_1, **RIGHT),
    "TLS 1.2": lambda ours, stranger, good: Client(ours, good, ssl.TLSVersion.TLSv1_2, **RIGHT),
    "trusts another authority": lambda ours, stranger, good: Client(stranger, good, **RIGHT),
    "asks for another name": lambda ours, stranger, good: Client(ours, good, name="localhost", **RIGHT),
}


@pytest.fixture(scope="module")
def clients(folder, ours):
    """The clients by what is special about them."""
    stranger, good = Certificates(folder / "stranger"), ours.issue("hub", "hub.example.org")
    return {what: make(ours, stranger, good) for what, make in CLIENTS.items()}


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("what", CLIENTS)
def test_every_server_gives_the_same_status(servers, clients, what):
    ports, config, _ = servers
    tls = "tls_server_config" in CONFIGS[config]
    statuses = {name: clients[what].status(port, tls) for name, port in ports.items()}
    print(config, what, statuses)
    assert len(set(statuses.values())) == 1, statuses
    assert (statuses["agent"] == 200) is (what in _ANSWERED[config])


_OTHERS = {"trusts another authority", "asks for another name"}
_ANSWERED = {
    "users": set(CLIENTS) - {"no password", "wrong password", "unknown user"},
    "TLS and users": set(CLIENTS) - {"no password", "wrong password", "unknown user", "TLS 1.1"} - _OTHERS,
    "client certificates": {"right", "no password", "wrong password", "unknown user", "TLS 1.2"},
}


def test_broken_file_is_not_used_by_zmon_and_ends_answers_of_prometheus(servers, clients):
    ports, config, web = servers
    tls = "tls_server_config" in CONFIGS[config]
    text = web.read_text()
    web.write_text("tls_server_config: {cert_fil: x}\n")
    try:
        statuses = {name: clients["right"].status(port, tls) for name, port in ports.items()}
    finally:
        web.write_text(text)
    broken = "no connection" if tls else 500
    assert statuses == {"prometheus": broken, "alertmanager": broken, "agent": 200, "hub": 200}


@pytest.mark.parametrize("config", CONFIGS)
def test_promtool_accepts_the_file(tmp_path, config):
    ours = Certificates(tmp_path)
    ours.issue("server", "127.0.0.1")
    (tmp_path / "web.yaml").write_text(yaml.safe_dump(CONFIGS[config]))
    command = [find_program("promtool"), "check", "web-config", str(tmp_path / "web.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
