"""Tests of the chart's configuration with a real agent and hub: each part may ask what its role allows, and no more.

The certificates have the names that the chart asks cert-manager for.
"""

import contextlib
import socket
import subprocess
import sys

import pytest
import requests
from aiohttp.test_utils import unused_port

from tests.boxes import eventually
from tests.places import REPOSITORY
from tests.web.certificates import Certificates

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore:Unverified HTTPS")]

START_SECONDS = 30.0
PARTS = ("agent", "hub", "dashboard", "prometheus")


@pytest.fixture(scope="module")
def folders(installed, tmp_path_factory):
    """The directory /etc/zmon of each part: its ConfigMap, and its certificate in tls/."""
    objects, folder = installed("default"), tmp_path_factory.mktemp("etc")
    authority = Certificates(folder)
    for part in PARTS:
        (folder / part / "tls").mkdir(parents=True)
        certificates = [t for t in objects if t["kind"] == "Certificate" and t["metadata"]["name"] == f"zmon-{part}"]
        pem, key = authority.issue(part, *certificates[0]["spec"]["dnsNames"])
        pem.rename(folder / part / "tls/tls.crt")
        key.rename(folder / part / "tls/tls.key")
        (folder / part / "tls/ca.crt").write_bytes(authority.ca_file.read_bytes())
        if part != "prometheus":
            for name, text in objects.of("ConfigMap", f"zmon-{part}")["data"].items():
                (folder / part / name).write_text(text)
    return folder


@contextlib.contextmanager
def daemon(name, port, folder, data, *options):
    """Run a daemon as the chart does, but on loopback."""
    command = [sys.executable, "-m", "zmon", name, "--port", str(port), "--data-dir", str(data)]
    process = subprocess.Popen(
        [*command, "--web.config.file", str(folder / name / "web.yaml"), *options], cwd=REPOSITORY
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=20)


def get(folders, part, port, path):
    """Send a GET request with the certificate of a part, or with none, to a server that is known by its name."""
    session = requests.Session()
    session.trust_env = False  # REQUESTS_CA_BUNDLE would replace `verify`
    session.verify = str(folders / "hub/tls/ca.crt")
    if part:
        session.cert = (str(folders / part / "tls/tls.crt"), str(folders / part / "tls/tls.key"))
    return session.get(f"https://zmon.internal:{port}{path}", timeout=10)


@pytest.fixture(scope="module")
def ports(folders, tmp_path_factory):
    """An agent and a hub that know each other by their certificates."""
    agent, hub = unused_port(), unused_port()
    data = tmp_path_factory.mktemp("data")
    to_agent = ("--agents", f"https://127.0.0.1:{agent}", "--http-config", str(folders / "hub/http.yaml"))
    with (
        daemon("agent", agent, folders, data / "agent", "--box-dir", str(data / "boxes")) as agent_process,
        daemon("hub", hub, folders, data / "hub", *to_agent) as hub_process,
    ):

        def is_ready():
            assert (agent_process.poll(), hub_process.poll()) == (None, None)
            with contextlib.suppress(requests.ConnectionError):
                anonymous = requests.get(f"https://127.0.0.1:{hub}/readyz", verify=False, timeout=10)  # as the kubelet
                return anonymous.status_code == 200
            return False

        assert eventually(is_ready, START_SECONDS), "the hub does not become ready"
        yield {"agent": agent, "hub": hub}


@pytest.fixture(autouse=True)
def server_name(monkeypatch):
    """Resolve the name in the certificates to this machine, as no name server does: zmon's clients check it instead."""
    ask = socket.getaddrinfo

    def resolve(host, *arguments, **options):
        return ask("127.0.0.1" if host == "zmon.internal" else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_hub_reaches_the_agent_by_its_certificate(folders, ports):
    health = get(folders, "hub", ports["hub"], "/healthz")
    assert health.json()["healthy"], health.text


@pytest.mark.parametrize(
    ("server", "part", "path", "status"),
    [
        ("agent", None, "/livez", 200),
        ("agent", None, "/readyz", 200),
        ("agent", None, "/metrics", 401),
        ("agent", "prometheus", "/metrics", 200),
        ("agent", "prometheus", "/api/v1/snapshot", 403),
        ("agent", "prometheus", "/api/v1/evidence/job/0", 403),
        ("agent", "dashboard", "/api/v1/snapshot", 403),
        ("agent", "hub", "/api/v1/snapshot", 200),
        ("hub", None, "/api/v1/jobs", 401),
        ("hub", "prometheus", "/metrics", 200),
        ("hub", "prometheus", "/api/v1/findings", 403),
        ("hub", "dashboard", "/api/v1/findings", 200),
        ("hub", "dashboard", "/metrics", 403),
        ("hub", "hub", "/api/v1/jobs", 200),
        ("hub", "agent", "/api/v1/jobs", 403),
    ],
)
def test_each_part_may_ask_what_its_role_says(folders, ports, server, part, path, status):
    assert get(folders, part, ports[server], path).status_code == status


def test_status_in_the_pod_of_the_hub_works(folders, ports):
    env = {"ZMON_HUB_URL": f"https://127.0.0.1:{ports['hub']}", "ZMON_HTTP_CONFIG": str(folders / "hub/http.yaml")}
    command = [sys.executable, "-m", "zmon", "status"]
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
