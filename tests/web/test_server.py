"""Tests of the HTTP server. Beyond loopback it needs TLS and users, and it writes NaN as null."""

import json

import pytest
from aiohttp.test_utils import make_mocked_request

from tests.build import agent_report, rank_state
from tests.web.certificates import BCRYPT_HASH, MUTUAL, SERVER, Certificates, live_config
from tests.web.serving import COMPRESSED, running_server
from zmon.errors import UsageError
from zmon.schema.api import EndsRequest, endpoints
from zmon.web.responses import Refusal, json_response
from zmon.web.server import check_bind, read_request


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "::1", "localhost"])
def test_loopback_address_needs_no_tls(host):
    check_bind(host, None, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "node-a", ""])
def test_other_address_is_refused_without_tls_and_users(host):
    with pytest.raises(UsageError, match="without TLS and users, tokens or client certificates"):
        check_bind(host, None, insecure=False)
    check_bind(host, None, insecure=True)


MISSING = {  # web.yaml, and what it lacks; None: nothing
    "without TLS": ({"basic_auth_users": {"ann": BCRYPT_HASH}}, "without TLS,"),
    "without users": ({"tls_server_config": SERVER}, "without users, tokens or client certificates,"),
    "TLS and users": ({"tls_server_config": SERVER, "basic_auth_users": {"ann": BCRYPT_HASH}}, None),
    "TLS and client certificates": ({"tls_server_config": SERVER | MUTUAL}, None),
}


@pytest.mark.parametrize(("config", "missing"), MISSING.values(), ids=MISSING)
def test_other_address_needs_both_tls_and_a_check_of_clients(tmp_path, config, missing):
    Certificates(tmp_path).issue("server", "127.0.0.1")
    live = live_config(tmp_path, **config)
    if missing is None:
        check_bind("0.0.0.0", live, insecure=False)
    else:
        with pytest.raises(UsageError, match=missing):
            check_bind("0.0.0.0", live, insecure=False)


@pytest.mark.parametrize("encoding", ["deflate", "gzip"])
async def test_compressed_body_of_a_request_is_never_made_large(encoding):
    async with running_server() as server:
        head = f"POST /length HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: {encoding}\r\n"
        body = f"Content-Length: {len(COMPRESSED)}\r\n\r\n".encode() + COMPRESSED
        assert await server.status(head.encode() + body) == 200


@pytest.mark.parametrize(
    ("word", "value"), [("1", True), ("true", True), ("0", False), ("false", False), ("False", False), ("", False)]
)
async def test_boolean_in_a_url_may_be_a_digit_or_a_word(word, value):
    request = make_mocked_request("GET", f"/api/v1/findings?active={word}&evidence={word}")
    read = await read_request(endpoints.FINDINGS, request)
    assert (read.active, read.evidence) == (value, value)


@pytest.mark.parametrize("word", ["2.7", "1e3", "inf", "x", ""])
async def test_integer_in_a_url_is_never_rounded(word):
    with pytest.raises(Refusal, match=r"limit=.* is not an integer"):
        await read_request(endpoints.ENDS, make_mocked_request("GET", f"/api/v1/ends?limit={word}"))
    exact = make_mocked_request("GET", "/api/v1/ends?limit=9007199254740993&seconds=2.7")
    assert await read_request(endpoints.ENDS, exact) == EndsRequest(seconds=2.7, limit=9007199254740993)


def test_nan_is_written_as_null():
    assert json_response({"loss": float("nan")}).body == b'{"loss":null}'


def test_text_that_is_not_utf_8_hides_nothing_else(caplog):
    """Text is made plain where it enters; this is the last resort."""
    report = agent_report(rank_state(0, labels={"own\udcffer": "M\udcfcller"}, report={"loss": float("nan")}))
    answer = json.loads(json_response(report).body)
    assert answer["ranks"][0]["labels"] == {"own\ufffder": "M\ufffdller"}
    assert answer["ranks"][0]["report"] == {"loss": None}
    assert answer["host"] == "node-a"
    assert "not UTF-8" in caplog.text
