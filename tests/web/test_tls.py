"""Tests of a server with TLS: who may connect, files that change, and clients that never finish their handshake."""

import asyncio
import base64
import shutil
import ssl
from typing import ClassVar

import bcrypt
import pytest
import yaml

from tests.web.certificates import MUTUAL, OPTIONAL, SERVER, Certificates, live_config
from tests.web.serving import WHOLE, is_closed, request, with_server
from zmon.errors import UsageError
from zmon.web import tls
from zmon.web.live_config import reload_success


@pytest.fixture
def authority(tmp_path):
    certificates = Certificates(tmp_path)
    certificates.issue("server", "127.0.0.1")
    return certificates


@pytest.fixture
def live(tmp_path, authority):
    """Return a function that returns the configuration of a server with these keys of TLS."""
    return lambda **keys: live_config(tmp_path, tls_server_config=SERVER | keys)


def statuses(live, *clients):
    """Return the status that each client gets; None if its connection is refused."""
    answers = []

    async def scenario(server):
        answers.extend([await server.status(tls=client) for client in clients])

    with_server(scenario, live=live)
    return answers


def test_client_that_trusts_the_authority_is_answered(live, authority, tmp_path):
    (tmp_path / "other").mkdir()
    stranger = Certificates(tmp_path / "other")
    assert statuses(live(), authority.client(), stranger.client()) == [200, None]


def test_request_without_tls_is_not_answered(live, authority):
    async def scenario(server):
        reader, _ = await server.send(WHOLE, tls=None)
        assert b"200" not in await reader.read(100)
        assert await server.status(tls=authority.client()) == 200

    with_server(scenario, live=live())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("least", "version", "status"),
    [
        ("TLS12", ssl.TLSVersion.TLSv1_1, None),
        ("TLS12", ssl.TLSVersion.TLSv1_2, 200),
        ("TLS11", ssl.TLSVersion.TLSv1_1, 200),
        ("TLS13", ssl.TLSVersion.TLSv1_2, None),
    ],
)
def test_older_versions_of_tls_are_refused(live, authority, least, version, status):
    assert statuses(live(min_version=least), authority.client(version=version)) == [status]


def test_client_needs_a_certificate_of_the_authority_that_has_not_expired(live, authority, tmp_path):
    (tmp_path / "other").mkdir()
    stranger = Certificates(tmp_path / "other").issue("hub", "hub.example.org")
    pairs = [
        None,
        stranger,
        authority.issue("old", "hub.example.org", expired=True),
        authority.issue("hub", "hub.example.org"),
    ]
    assert statuses(live(**MUTUAL), *map(authority.client, pairs)) == [None, None, None, 200]


def test_client_needs_a_name_that_is_allowed(live, authority):
    allowed = live(**MUTUAL, client_allowed_sans=["hub.example.org", "10.0.0.7"])
    pairs = [
        authority.issue("a", "agent.example.org"),
        authority.issue("b", "hub.example.org"),
        authority.issue("c", "10.0.0.7"),
    ]
    assert statuses(allowed, *map(authority.client, pairs)) == [None, 200, 200]


def test_new_certificate_is_used_from_the_next_handshake_on(live, authority):
    config = live()

    async def scenario(server):
        reader, _ = await server.send(WHOLE, authority.client())
        authority.issue("server", "127.0.0.1", "localhost")
        _, writer = await server.send(WHOLE, authority.client())
        names = writer.get_extra_info("peercert")["subjectAltName"]
        assert {value for _, value in names} == {"127.0.0.1", "localhost"}
        assert b"200" in await reader.readline()  # the connection from before goes on

    with_server(scenario, live=config)


def test_broken_certificate_is_an_error_that_changes_nothing(live, authority, tmp_path, caplog):
    config = live()

    async def scenario(server):
        assert reload_success(config) == 1.0
        (tmp_path / "server.pem").write_text("no certificate")
        assert await server.status(tls=authority.client()) == 200
        assert reload_success(config) == 0.0
        authority.issue("server", "127.0.0.1")
        assert await server.status(tls=authority.client()) == 200
        assert reload_success(config) == 1.0

    with_server(scenario, live=config)
    assert "keeps its certificate: cannot use the certificate" in caplog.text


def test_reload_reads_the_file_again_unless_it_is_broken(live, authority, tmp_path, caplog):
    config = live()
    shutil.copy(tmp_path / "web.yaml", tmp_path / "good.yaml")

    async def scenario(server):
        (tmp_path / "web.yaml").write_text("tls_server_config: {cert_fil: a}")
        config.reload()
        assert (await server.status(tls=authority.client()), reload_success(config)) == (200, 0.0)
        (tmp_path / "web.yaml").write_text("{}")
        config.reload()
        assert (await server.status(tls=authority.client()), reload_success(config)) == (200, 0.0)
        text = (tmp_path / "good.yaml").read_text()
        (tmp_path / "web.yaml").write_text(text + "http_server_config: {headers: {X-Frame-Options: deny}}\n")
        config.reload()
        reader, _ = await server.send(WHOLE, authority.client())
        assert b"X-Frame-Options: deny" in await reader.read(1000)
        assert reload_success(config) == 1.0

    with_server(scenario, live=config)
    assert "stays as it was" in caplog.text
    assert "switches TLS on or off" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("server.pem", "no certificate", "not a PEM pair"),
        ("server.key", None, "the key is of another certificate"),
        ("ca.pem", "no certificate", "no certificate of an authority"),
    ],
)
def test_unusable_files_are_refused_at_the_start_with_one_line(live, authority, tmp_path, name, content, reason):
    if content is None:
        shutil.copy(authority.issue("other", "127.0.0.1")[1], tmp_path / name)
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=reason):
        live(**MUTUAL)


def test_clients_that_never_finish_their_handshake_are_closed_to_make_room(live, authority):
    async def scenario(server):
        waiting = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(20)]
        try:
            assert await server.status(tls=authority.client()) == 200
            closed = [await is_closed(reader, 0.2) for reader, _ in waiting]
            assert sum(closed) >= 20 - 8  # the server has eight connections
        finally:
            for _, writer in waiting:
                writer.close()

    with_server(scenario, most=8, live=live())


USERS = {"ann": bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()}
ROLES = [{"user": "ann", "roles": ["read"]}]


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        ({"tls_server_config": SERVER}, "lets anybody ask"),
        ({"tls_server_config": SERVER, "basic_auth_users": USERS}, "has no zmon_roles any more"),
        ({"basic_auth_users": USERS, "zmon_roles": ROLES}, "switches TLS on or off"),
    ],
)
def test_reload_of_half_a_file_opens_nothing(authority, tmp_path, caplog, cut, reason):
    config = live_config(tmp_path, tls_server_config=SERVER, basic_auth_users=USERS, zmon_roles=ROLES)
    access = config.access
    (tmp_path / "web.yaml").write_text(yaml.safe_dump(cut))
    config.reload()
    assert config.access is access
    assert reload_success(config) == 0.0
    assert reason in caplog.text


def test_connection_without_a_certificate_is_nobody_after_a_reload_that_demands_one(authority, tmp_path):
    config = live_config(tmp_path, tls_server_config=OPTIONAL, basic_auth_users=USERS)

    async def scenario(server):
        reader, writer = await server.send(WHOLE, authority.client())
        assert b" 401 " in await reader.readline()
        (tmp_path / "web.yaml").write_text(yaml.safe_dump({"tls_server_config": OPTIONAL | MUTUAL}))
        config.reload()
        assert reload_success(config) == 1.0
        writer.write(WHOLE)
        rest = await asyncio.wait_for(reader.read(), 5)  # until it is closed: its client has to show a certificate
        assert rest.count(b"HTTP/1.1 401") == 1
        assert b" 200 " not in rest

    with_server(scenario, live=config)


def test_connection_made_before_its_certificate_was_withdrawn_is_closed(authority, tmp_path):
    pair = authority.issue("hub", "hub.example.org")
    config = live_config(tmp_path, tls_server_config=SERVER | MUTUAL | {"client_allowed_sans": ["hub.example.org"]})

    async def scenario(server):
        reader, writer = await server.send(WHOLE, authority.client(pair))
        assert b" 200 " in await reader.readline()
        keys = SERVER | MUTUAL | {"client_allowed_sans": ["new.example.org"]}
        (tmp_path / "web.yaml").write_text(yaml.safe_dump({"tls_server_config": keys}))
        config.reload()
        writer.write(WHOLE)
        assert b"HTTP/1.1 200" not in await asyncio.wait_for(reader.read(), 5)

    with_server(scenario, live=config)


def test_certificate_with_an_empty_name_has_no_role(authority, tmp_path):
    (tmp_path / "token").write_text("0123456789abcdef")
    roles = [{"token_file": "token", "roles": ["metrics", "read"]}]
    config = live_config(tmp_path, tls_server_config=OPTIONAL, zmon_roles=roles)

    class Request:
        headers: ClassVar = {}
        remote = "127.0.0.1"

        class transport:
            @staticmethod
            def get_extra_info(name):
                return {"subjectAltName": (("URI", ""), ("DNS", ""))}

    assert asyncio.run(config.access.roles(Request)) == frozenset()


def test_certificate_whose_rights_were_wrong_for_a_moment_is_read_in_the_end(authority, live, tmp_path, monkeypatch):
    monkeypatch.setattr(tls, "_RETRY_SECONDS", 0.0)
    config = live()
    read = tls.server_context
    authority.issue("server", "127.0.0.1")

    def fail(_):
        raise UsageError("cannot read server.key", "Permission denied")

    monkeypatch.setattr(tls, "server_context", fail)
    before = config.context()
    assert reload_success(config) == 0.0
    monkeypatch.setattr(tls, "server_context", read)  # nothing else about the files changes
    assert config.context() is not before
    assert reload_success(config) == 1.0


def test_clients_without_a_login_are_closed_before_those_in_their_handshake(authority, tmp_path):
    config = live_config(tmp_path, tls_server_config=SERVER, basic_auth_users=USERS)
    login = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic " + base64.b64encode(b"ann:secret")

    async def scenario(server):
        strangers = [await server.send(request("livez"), authority.client()) for _ in range(8)]
        for reader, _ in strangers:
            assert b" 200 " in await reader.readline()
        for _ in range(12):
            assert await server.status(login + b"\r\n\r\n", tls=authority.client()) == 200

    with_server(scenario, most=8, live=config)
