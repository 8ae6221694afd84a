"""Prometheus, Alertmanager, agent and hub with the same --web.config.file answer the same clients with the same status.

Prometheus is the reference. zmon differs on purpose if the file becomes invalid: it keeps the last valid one, where
Prometheus answers 500 or ends the handshake.
"""

import base64
import contextlib
import http.client
import shutil
import socket
import ssl
import subprocess
import sys

import bcrypt
import pytest
import yaml
from aiohttp.test_utils import unused_port

from tests.boxes import eventually
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
    """A client with the authority that it trusts, its certificate, TLS version and password, and the server's name.

    `pair`: the paths of its certificate and key. `version`: the only version of TLS that it speaks.
    """

    def __init__(self, authority, pair=None, version=None, login=None, name="127.0.0.1"):
        self.context = authority.client(pair, version)
        self.login = login
        self.name = name

    def status(self, port, tls):
        """Return the status that it gets for /metrics, or "no connection"."""
        headers = {"Authorization": "Basic " + self.login} if self.login else {}
        try:
            if tls:
                connection = http.client.HTTPSConnection(self.name, port, timeout=10, context=self.context)
            else:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            with contextlib.closing(connection):
                connection.request("GET", "/metrics", headers=headers)
                return connection.getresponse().status
        except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
            return "no connection"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the certificates, with a subfolder for those of another authority."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "stranger").mkdir()
    return folder


@pytest.fixture(scope="module")
def authority(folder):
    """The authority that the servers trust, which has issued their certificate."""
    authority = Certificates(folder)
    authority.issue("server", "127.0.0.1")
    return authority


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
def servers(request, folder, authority):
    """All servers with one configuration: their ports by name, the name of the configuration, and its file."""
    directory = folder / request.param.replace(" ", "-")
    # The files of the authority are copied, but not the directories of earlier configurations, which lie beside them.
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
            assert eventually(lambda port=port: is_listening(port), START_SECONDS), f"{name} does not listen"
        yield ports, request.param, web
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=20)


def is_listening(port):
    """Return True if a server accepts connections at this port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def login(user, password):
    """Return the value of an Authorization header, without `Basic`."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


WITHOUT_LOGIN = {"no password", "wrong password", "unknown user"}
WITHOUT_CERTIFICATE = {"no certificate", "certificate of another authority", "expired certificate"}
REJECT_SERVER = {"trusts another authority", "asks for another name"}
CLIENTS = {"right", "TLS 1.1", "TLS 1.2"} | WITHOUT_LOGIN | WITHOUT_CERTIFICATE | REJECT_SERVER
ANSWERED = {  # the clients that get an answer, by configuration
    "users": CLIENTS - WITHOUT_LOGIN,
    "TLS and users": CLIENTS - WITHOUT_LOGIN - REJECT_SERVER - {"TLS 1.1"},
    "client certificates": {"right", "TLS 1.2"} | WITHOUT_LOGIN,
}


@pytest.fixture(scope="module")
def clients(folder, authority):
    """All clients, by their names in `CLIENTS`."""
    other, right = Certificates(folder / "stranger"), login("ann", "secret")
    pair = authority.issue("hub", "hub.example.org")
    expired = authority.issue("old", "hub.example.org", expired=True)
    return {
        "right": Client(authority, pair, login=right),
        "no password": Client(authority, pair),
        "wrong password": Client(authority, pair, login=login("ann", "wrong")),
        "unknown user": Client(authority, pair, login=login("bob", "secret")),
        "no certificate": Client(authority, login=right),
        "certificate of another authority": Client(authority, other.issue("hub", "hub.example.org"), login=right),
        "expired certificate": Client(authority, expired, login=right),
        "TLS 1.1": Client(authority, pair, ssl.TLSVersion.TLSv1_1, right),
        "TLS 1.2": Client(authority, pair, ssl.TLSVersion.TLSv1_2, right),
        "trusts another authority": Client(other, pair, login=right),
        "asks for another name": Client(authority, pair, login=right, name="localhost"),
    }


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_every_server_gives_the_same_status(servers, clients, client):
    ports, config, _ = servers
    tls = "tls_server_config" in CONFIGS[config]
    statuses = {name: clients[client].status(port, tls) for name, port in ports.items()}
    assert len(set(statuses.values())) == 1, statuses
    assert (statuses["agent"] == 200) == (client in ANSWERED[config])


def test_zmon_keeps_the_last_valid_file_where_prometheus_stops_answering(servers, clients):
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
