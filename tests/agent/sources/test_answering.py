"""Tests of asking addresses for an answer, with real sockets over loopback."""

import socket

import pytest

from zmon.agent.sources import answering
from zmon.agent.sources.answering import answering_addresses

NOWHERE = "192.0.2.1"  # TEST-NET-1 (RFC 5737)


@pytest.mark.parametrize(("address", "source"), [("127.0.0.2", "127.0.0.1"), ("::1", "::1")])
def test_refusal_is_an_answer(address, source):
    assert answering_addresses({address: source}) == {address}


def test_open_port_is_an_answer(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(answering, "_PORT", server.getsockname()[1])
        assert answering_addresses({"127.0.0.1": "127.0.0.1"}) == {"127.0.0.1"}


def test_address_that_cannot_be_reached_hides_no_other():
    sources = {NOWHERE: "127.0.0.1", "127.0.0.2": "127.0.0.1", "127.0.0.3": "10.254.254.254", "fe80::1": "::1"}
    assert answering_addresses(sources, 0.2) == {"127.0.0.2"}


def test_nobody_is_asked_without_addresses():
    assert answering_addresses({}) == frozenset()
