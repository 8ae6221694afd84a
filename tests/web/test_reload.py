"""Tests of files that change while a server with TLS runs: certificates, web.yaml, and whom they let in."""

import asyncio
import shutil

import pytest
import yaml

from tests.web.certificates import MUTUAL, OPTIONAL, SERVER, hashed, live_config
from tests.web.serving import WHOLE, running_server
from zmon.errors import UsageError
from zmon.web import tls
from zmon.web.live_config import reload_success

USERS = {"ann": hashed("secret")}
ROLES = [{"user": "ann", "roles": ["read"]}]


async def test_new_certificate_is_used_from_the_next_handshake_on(make_config, authority):
    config = make_config()
    async with running_server(live=config) as server:
        reader, _ = await server.send(WHOLE, authority.client())
        authority.issue("server", "127.0.0.1", "localhost")
        _, writer = await server.send(WHOLE, authority.client())
        names = writer.get_extra_info("peercert")["subjectAltName"]
        assert {value for _, value in names} == {"127.0.0.1", "localhost"}
        assert b"200" in await reader.readline()  # the connection from before goes on


async def test_broken_certificate_is_an_error_that_changes_nothing(make_config, authority, tmp_path, caplog):
    config = make_config()
    async with running_server(live=config) as server:
        assert reload_success(config) == 1.0
        (tmp_path / "server.pem").write_text("no certificate")
        assert await server.status(tls=authority.client()) == 200
        assert reload_success(config) == 0.0
        authority.issue("server", "127.0.0.1")
        assert await server.status(tls=authority.client()) == 200
        assert reload_success(config) == 1.0
    assert "keeps its certificate: cannot use the certificate" in caplog.text


async def test_reload_reads_the_file_again_unless_it_is_broken(make_config, authority, tmp_path, caplog):
    config = make_config()
    shutil.copy(tmp_path / "web.yaml", tmp_path / "good.yaml")
    async with running_server(live=config) as server:
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
    assert "stays as it was" in caplog.text
    assert "switches TLS on or off" in caplog.text


def test_certificate_that_could_not_be_read_once_is_read_again(authority, make_config, tmp_path, monkeypatch):
    monkeypatch.setattr(tls, "_RETRY_SECONDS", 0.0)
    config = make_config()
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


async def test_connection_without_a_certificate_is_nobody_after_a_reload_that_demands_one(authority, tmp_path):
    config = live_config(tmp_path, tls_server_config=OPTIONAL, basic_auth_users=USERS)
    async with running_server(live=config) as server:
        reader, writer = await server.send(WHOLE, authority.client())
        assert b" 401 " in await reader.readline()
        (tmp_path / "web.yaml").write_text(yaml.safe_dump({"tls_server_config": OPTIONAL | MUTUAL}))
        config.reload()
        assert reload_success(config) == 1.0
        writer.write(WHOLE)
        rest = await asyncio.wait_for(reader.read(), 5)  # until it is closed: its client has to show a certificate
        assert rest.count(b"HTTP/1.1 401") == 1
        assert b" 200 " not in rest


async def test_connection_whose_name_is_no_longer_allowed_is_closed_after_the_reload(authority, tmp_path):
    pair = authority.issue("hub", "hub.example.org")
    config = live_config(tmp_path, tls_server_config=SERVER | MUTUAL | {"client_allowed_sans": ["hub.example.org"]})
    async with running_server(live=config) as server:
        reader, writer = await server.send(WHOLE, authority.client(pair))
        assert b" 200 " in await reader.readline()
        keys = SERVER | MUTUAL | {"client_allowed_sans": ["new.example.org"]}
        (tmp_path / "web.yaml").write_text(yaml.safe_dump({"tls_server_config": keys}))
        config.reload()
        writer.write(WHOLE)
        assert b"HTTP/1.1 200" not in await asyncio.wait_for(reader.read(), 5)
