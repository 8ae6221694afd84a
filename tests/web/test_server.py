"""Tests of the HTTP server. It listens on loopback unless `--public` is given, and writes NaN as null."""

import json

import pytest

from tests.build import agent_report, rank_state
from zmon.errors import UsageError
from zmon.web.server import check_bind, json_response


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "::1", "localhost"])
def test_loopback_address_is_accepted_without_public(host):
    check_bind(host, public=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "node-a", ""])
def test_other_address_is_refused_without_public(host):
    with pytest.raises(UsageError, match="--public"):
        check_bind(host, public=False)
    check_bind(host, public=True)


def test_nan_is_written_as_null():
    assert json_response({"loss": float("nan")}).body == b'{"loss":null}'


def test_text_that_is_not_utf_8_is_replaced_and_hides_nothing_else(caplog):
    """Text is made plain where it enters; this is the last resort."""
    report = agent_report(rank_state(0, labels={"own\udcffer": "M\udcfcller"}, report={"loss": float("nan")}))
    answer = json.loads(json_response(report).body)
    assert answer["ranks"][0]["labels"] == {"own\ufffder": "M\ufffdller"}
    assert answer["ranks"][0]["report"] == {"loss": None}
    assert answer["host"] == "node-a"
    assert "not UTF-8" in caplog.text
