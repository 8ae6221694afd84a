"""Tests of the session of --http-config: password, token and certificate, renewed while it is open."""

import asyncio
import re
from pathlib import Path

import bcrypt
import msgspec
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

import zmon
from tests.web.certificates import MUTUAL, SERVER, Certificates, live_config
from tests.web.serving import with_server
from zmon.errors import Unreachable, UsageError
from zmon.schema.http_config import may_carry_credentials
from zmon.web import client, http_client
from zmon.web.http_client import read_http_config

PASSWORD = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


@pytest.fixture
def ours(tmp_path):
    certificates = Certificates(tmp_path)
    certificates.issue("server", "127.0.0.1", "agent.example.org")
    certificates.issue("hub", "hub.example.org")
    return certificates


@pytest.fixture
def read(tmp_path):
    def read(**keys):
        path = tmp_path / "http.yaml"
        path.write_text(yaml.safe_dump(keys))
        return read_http_config(path, "agents").agents

    return read


def live(folder, tls=None, **keys):
    return live_config(folder, tls_server_config=SERVER | (tls or {}), **keys)


def ask_server(web, ask):
    """Run a server and return what `ask` returns, given its URL."""
    answers = []

    async def scenario(server):
        answers.append(await ask(f"https://127.0.0.1:{server.port}/metrics"))

    with_server(scenario, live=web)
    return answers[0]


async def get(session, url):
    """Return the status, or the error message. The page is not JSON, so the error about its content means 200."""
    try:
        await client.get(session, url, msgspec.Raw, 2.0)
    except Unreachable as error:
        return "200" if "cannot understand" in str(error) else str(error)
    return "200"


def get_once(web, config):
    async def ask(url):
        async with http_client.session(config) as session:
            return await get(session, url)

    return ask_server(web, ask)


def test_password_is_sent(ours, read, tmp_path):
    config = read(basic_auth={"username": "ann", "password": "secret"}, tls_config={"ca_file": "ca.pem"})
    assert get_once(live(tmp_path, basic_auth_users={"ann": PASSWORD}), config) == "200"


def test_answer_401_says_what_is_missing(ours, read, tmp_path):
    line = get_once(live(tmp_path, basic_auth_users={"ann": PASSWORD}), read(tls_config={"ca_file": "ca.pem"}))
    assert re.fullmatch(r"https://\S+ answered 401\. Give a password, token or certificate in --http-config", line)


def test_password_in_a_file_is_read_again_for_each_request(ours, read, tmp_path):
    (tmp_path / "password").write_text("wrong")
    config = read(basic_auth={"username": "ann", "password_file": "password"}, tls_config={"ca_file": "ca.pem"})

    async def ask(url):
        async with http_client.session(config) as session:
            before = await get(session, url)
            (tmp_path / "password").write_text("secret\n")
            return before, await get(session, url)

    before, after = ask_server(live(tmp_path, basic_auth_users={"ann": PASSWORD}), ask)
    assert "401" in before
    assert after == "200"


def test_token_is_sent(ours, read, tmp_path):
    (tmp_path / "token").write_text("0123456789abcdef\n")
    web = live(tmp_path, zmon_roles=[{"token_file": "token", "roles": ["metrics", "read"]}])
    config = read(authorization={"credentials_file": "token"}, tls_config={"ca_file": "ca.pem"})
    assert get_once(web, config) == "200"


def test_certificate_is_shown_and_a_new_one_is_used_for_the_next_connection(ours, read, tmp_path):
    web = live(tmp_path, MUTUAL | {"client_allowed_sans": ["new.example.org"]})
    config = read(tls_config={"ca_file": "ca.pem", "cert_file": "hub.pem", "key_file": "hub.key"})

    async def ask(url):
        async with http_client.session(config) as session:
            before = await get(session, url)
            ours.issue("hub", "new.example.org")
            return before, await get(session, url)

    before, after = ask_server(web, ask)
    assert "cannot reach" in before
    assert after == "200"


def test_server_of_another_authority_is_refused_with_one_line(ours, read, tmp_path):
    (tmp_path / "other").mkdir()
    Certificates(tmp_path / "other")
    line = get_once(live(tmp_path), read(tls_config={"ca_file": "other/ca.pem"}))
    assert "unable to get local issuer certificate. Check ca_file" in line


@pytest.mark.parametrize("url", ["http://192.0.2.1:9780", "http://node-1:9780", "http://ann:secret@node-1:9780"])
def test_password_is_not_sent_without_tls_beyond_this_machine(read, url):
    """The client refuses before it connects; the addresses do not exist. A password in the URL is refused, too."""
    config = None if "@" in url else read(basic_auth={"username": "ann", "password": "secret"})

    async def ask():
        async with http_client.session(config) as session:
            return await get(session, url)

    line = asyncio.run(ask())
    assert "is not asked: without TLS, anybody on the network could read the password" in line
    assert line.endswith("Write https:// in its URL, or take the password or token out of --http-config")
    assert "secret" not in line


def test_password_is_sent_to_this_machine_without_tls(read):
    """`zmon up` has no TLS."""
    assert may_carry_credentials("http://127.0.0.1:9780")
    assert may_carry_credentials("http://[::1]:9780")
    assert may_carry_credentials("http://localhost:9780")
    assert not may_carry_credentials("http://127.0.0.1.example.org:9780")
    assert not may_carry_credentials("http://[::1:9780")
    shown = []

    async def main():
        async def page(request):
            shown.append(request.headers["Authorization"])
            return web.json_response({})

        app = web.Application()
        app.add_routes([web.get("/", page)])
        config = read(authorization={"credentials": "0123456789abcdef"})
        async with TestServer(app) as server, http_client.session(config) as session:
            await client.get(session, str(server.make_url("/")), dict, 2.0)

    asyncio.run(main())
    assert shown == ["Bearer 0123456789abcdef"]


async def test_server_that_compresses_where_it_may_is_understood():
    """Alertmanager does. No answer is decompressed, so every request must say so."""

    async def page(request):
        response = web.json_response({"a": "b" * 9000})
        response.enable_compression()
        return response

    app = web.Application()
    app.add_routes([web.get("/", page)])
    async with TestServer(app) as server, http_client.session() as session, session.get(server.make_url("/")) as answer:
        assert (await answer.json())["a"].startswith("bb")


def test_only_two_modules_create_client_sessions():
    """Such a session uses no proxy, no .netrc, and decompresses nothing. The other one is for the socket of a rank."""
    files = [path for path in Path(zmon.__file__).parent.rglob("*.py") if "ClientSession(" in path.read_text()]
    assert {path.name for path in files} == {"http_client.py", "evidence.py"}
    assert all("auto_decompress=False" in path.read_text() for path in files)


@pytest.mark.parametrize(("name", "answer"), [("agent.example.org", "200"), ("hub.example.org", "not valid for")])
def test_certificate_must_have_the_name_of_the_server(ours, read, tmp_path, name, answer):
    assert answer in get_once(live(tmp_path), read(tls_config={"ca_file": "ca.pem", "server_name": name}))


def test_verification_can_be_switched_off_by_name_only(ours, read, tmp_path):
    assert get_once(live(tmp_path), read(tls_config={"insecure_skip_verify": True})) == "200"
    assert "certificate" in get_once(live(tmp_path), None)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"basic_aut": {}}, "unknown field `basic_aut`"),
        ({"basic_auth": {"username": "a"}, "authorization": {"credentials": "b"}}, "both basic_auth and authorization"),
        ({"tls_config": {"cert_file": "hub.pem"}}, "both cert_file and key_file"),
        ({"tls_config": {"ca_file": "none.pem"}}, "none.pem: No such file"),
        ({"follow_redirects": True}, "follow_redirects"),
    ],
)
def test_wrong_file_is_refused_with_one_line(read, keys, reason):
    with pytest.raises(UsageError) as refused:
        read(**keys)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_file_of_a_password_that_is_gone_is_an_error_of_the_request(ours, read, tmp_path):
    config = read(basic_auth={"username": "ann", "password_file": "none"}, tls_config={"ca_file": "ca.pem"})
    assert "cannot read" in get_once(live(tmp_path), config)
    assert asyncio.run(_closed(config))


async def _closed(config):
    async with http_client.session(config) as session:
        pass
    return session.closed
