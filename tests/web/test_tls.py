"""Tests of a server with TLS: who may connect, and clients that never finish their handshake or show no login."""

import asyncio
import base64
import shutil
import ssl
from types import SimpleNamespace

import pytest

from tests.web.certificates import MUTUAL, OPTIONAL, SERVER, Certificates, hashed, live_config
from tests.web.serving import WHOLE, is_closed, request, running_server
from zmon.errors import UsageError


async def statuses(config, *clients):
    """Return the status that each client gets; None if its connection is refused."""
    async with running_server(live=config) as server:
        return [await server.status(tls=client) for client in clients]


async def test_client_that_trusts_the_authority_is_answered(make_config, authority, tmp_path):
    stranger = Certificates(tmp_path, "other")
    assert await statuses(make_config(), authority.client(), stranger.client()) == [200, None]


async def test_request_without_tls_is_not_answered(make_config, authority):
    async with running_server(live=make_config()) as server:
        reader, _ = await server.send(WHOLE, tls=None)
        assert b"HTTP/" not in await reader.read(100)
        assert await server.status(tls=authority.client()) == 200


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("min_version", "version", "status"),
    [
        ("TLS12", ssl.TLSVersion.TLSv1_1, None),
        ("TLS12", ssl.TLSVersion.TLSv1_2, 200),
        ("TLS11", ssl.TLSVersion.TLSv1_1, 200),
        ("TLS13", ssl.TLSVersion.TLSv1_2, None),
    ],
)
async def test_min_version_decides_which_versions_are_answered(make_config, authority, min_version, version, status):
    assert await statuses(make_config(min_version=min_version), authority.client(version=version)) == [status]


async def test_client_needs_a_certificate_of_the_authority_that_has_not_expired(make_config, authority, tmp_path):
    pairs = (
        None,
        Certificates(tmp_path, "other").issue("stranger", "hub.example.org"),
        authority.issue("old", "hub.example.org", expired=True),
        authority.issue("hub", "hub.example.org"),
    )
    assert await statuses(make_config(**MUTUAL), *map(authority.client, pairs)) == [None, None, None, 200]


async def test_client_needs_a_name_that_is_allowed(make_config, authority):
    allowed = make_config(**MUTUAL, client_allowed_sans=["hub.example.org", "10.0.0.7"])
    pairs = [authority.issue(name, name) for name in ("agent.example.org", "hub.example.org", "10.0.0.7")]
    assert await statuses(allowed, *map(authority.client, pairs)) == [None, 200, 200]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("server.pem", "no certificate", "not a PEM pair"),
        ("server.key", None, "the key is of another certificate"),
        ("ca.pem", "no certificate", "no certificate of an authority"),
    ],
)
def test_unusable_files_are_refused_at_the_start(make_config, authority, tmp_path, name, content, reason):
    if content is None:
        shutil.copy(authority.issue("other", "127.0.0.1")[1], tmp_path / name)
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=reason):
        make_config(**MUTUAL)


async def test_clients_that_never_finish_their_handshake_are_closed_to_make_room(make_config, authority):
    async with running_server(max_connections=8, live=make_config()) as server:
        waiting = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(20)]
        try:
            assert await server.status(tls=authority.client()) == 200
            closed = await asyncio.gather(*(is_closed(reader, 0.2) for reader, _ in waiting))
            assert sum(closed) >= 20 - 8  # the server has eight connections
        finally:
            for _, writer in waiting:
                writer.close()


async def test_clients_without_a_login_are_closed_before_those_in_their_handshake(authority, tmp_path):
    """The server has eight connections. Each client with a login needs the place of another one."""
    config = live_config(tmp_path, tls_server_config=SERVER, basic_auth_users={"ann": hashed("secret")})
    login = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic " + base64.b64encode(b"ann:secret")
    async with running_server(max_connections=8, live=config) as server:
        in_handshake, writer = await asyncio.open_connection("127.0.0.1", server.port)
        server.sockets.append(writer)
        strangers = [await server.send(request("livez"), authority.client()) for _ in range(7)]
        for reader, _ in strangers:
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        for _ in range(7):
            assert await server.status(login + b"\r\n\r\n", tls=authority.client()) == 200
        assert await asyncio.gather(*(is_closed(reader, 0.2) for reader, _ in strangers)) == [True] * 7
        assert not await is_closed(in_handshake, 0.2)
        for _ in range(5):
            assert await server.status(login + b"\r\n\r\n", tls=authority.client()) == 200
        assert await is_closed(in_handshake, 0.2)


async def test_certificate_with_an_empty_name_has_no_role(authority, tmp_path):
    (tmp_path / "token").write_text("0123456789abcdef")
    roles = [{"token_file": "token", "roles": ["metrics", "read"]}]
    config = live_config(tmp_path, tls_server_config=OPTIONAL, zmon_roles=roles)
    certificate = {"subjectAltName": (("URI", ""), ("DNS", ""))}
    transport = SimpleNamespace(get_extra_info=lambda name: certificate)
    sent = SimpleNamespace(headers={}, remote="127.0.0.1", transport=transport)
    assert await config.access.roles(sent) == frozenset()
