"""Tests of the dashboard's requests to a hub with TLS and users."""

import asyncio

import bcrypt
import pytest
import yaml

from dashboards import asking
from tests.web.certificates import OPTIONAL, Certificates, live_config
from tests.web.serving import with_server
from zmon.schema.http_config import VARIABLE

PASSWORD = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


@pytest.fixture
def web(tmp_path):
    certificates = Certificates(tmp_path)
    certificates.issue("server", "127.0.0.1")
    certificates.issue("dashboard", "dashboard.example.org")
    roles = [
        {"user": "ann", "roles": ["metrics"]},
        {"client_san": "dashboard.example.org", "roles": ["metrics"]},
        {"token_file": "token", "roles": ["metrics"]},
    ]
    (tmp_path / "token").write_text("0123456789abcdef\n")
    return live_config(tmp_path, tls_server_config=OPTIONAL, basic_auth_users={"ann": PASSWORD}, zmon_roles=roles)


@pytest.fixture
def fetched(web, tmp_path, monkeypatch):
    """Fetch a page with this file, and return it, or the line of the error."""

    def fetched(keys):
        if keys is not None:
            (tmp_path / "http.yaml").write_text(yaml.safe_dump(keys))
            monkeypatch.setenv(VARIABLE, str(tmp_path / "http.yaml"))
        answers = []

        def fetch(port):
            try:
                source = asking.Source("The hub", "ZMON_HUB_URL", f"https://127.0.0.1:{port}", "no hub")
                return asking.fetch(source, "/metrics")
            except asking.Unreachable as error:
                return str(error)

        async def scenario(server):
            answers.append(await asyncio.to_thread(fetch, server.port))

        with_server(scenario, live=web)
        return answers[0]

    return fetched


OURS = {"ca_file": "ca.pem"}


@pytest.mark.parametrize(
    "keys",
    [
        {"basic_auth": {"username": "ann", "password": "secret"}, "tls_config": OURS},
        {"authorization": {"credentials_file": "token"}, "tls_config": OURS},
        {"tls_config": OURS | {"cert_file": "dashboard.pem", "key_file": "dashboard.key"}},
    ],
    ids=["password", "token", "certificate"],
)
def test_hub_with_tls_and_users_is_asked(fetched, keys):
    assert fetched(keys) == b"up 1\n"


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (None, "does not trust"),
        ({"tls_config": OURS}, "wants a password, a token or a certificate"),
        ({"basic_auth": {"username": "ann", "password": "x"}, "tls_config": OURS}, "wants a password"),
        ({"basic": {}}, "unknown field `basic`"),
        ({"tls_config": OURS | {"server_name": "hub"}}, "cannot use server_name"),
        ({"authorization": {"credentials_file": "none"}}, "No such file"),
    ],
)
def test_page_says_in_one_line_what_is_missing(fetched, keys, line):
    assert line in fetched(keys)
