"""Tests of the discovery of agents by DNS."""

import asyncio
import re
import socket
import threading

import dns.asyncresolver
import dns.message
import dns.rrset
import pytest

from zmon.errors import ZmonError
from zmon.hub.discovery.dns import DnsTargets, SrvTargets


@pytest.fixture
def name_server(monkeypatch):
    """A name server on loopback that knows one service."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def answer():
        while True:
            data, sender = server.recvfrom(4096)
            if not data:  # the end of the test
                return
            query = dns.message.from_wire(data)
            reply = dns.message.make_response(query)
            name = query.question[0].name
            if str(name) == "_zmon-agent._tcp.example.org.":
                # priority, weight, port and name
                records = ("10 5 9780 node-2.example.org.", "10 5 9781 node-1.example.org.")
                reply.answer.append(dns.rrset.from_text(name, 30, "IN", "SRV", *records))
            else:
                reply.set_rcode(dns.rcode.NXDOMAIN)
            server.sendto(reply.to_wire(), sender)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = server.getsockname()[1]
    monkeypatch.setattr(dns.asyncresolver, "default_resolver", resolver)
    yield
    server.sendto(b"", server.getsockname())
    thread.join(timeout=5)
    server.close()


def find(source):
    """Return the URLs of the agents that the source finds."""
    return asyncio.run(source.find(None))  # DNS needs no HTTP session


def test_records_of_a_service_are_the_agents(name_server):
    assert find(SrvTargets("_zmon-agent._tcp.example.org", "https")) == (
        "https://node-1.example.org:9781",
        "https://node-2.example.org:9780",
    )


def test_service_that_does_not_exist_is_refused_with_one_line(name_server):
    with pytest.raises(ZmonError, match=r"cannot resolve _none._tcp.example.org: .*does not exist") as refused:
        find(SrvTargets("_none._tcp.example.org", "http"))
    assert "\n" not in str(refused.value)


def test_every_address_of_a_name_is_an_agent(monkeypatch):
    async def addresses(self, host, port, **_):
        assert (host, port) == ("zmon-agent", 9780)
        return [
            (socket.AF_INET, 1, 6, "", ("10.0.0.2", port)),
            (socket.AF_INET6, 1, 6, "", ("fd00::1", port, 0, 0)),
            (socket.AF_INET, 1, 6, "", ("10.0.0.1", port)),
        ]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", addresses)
    assert find(DnsTargets("zmon-agent", 9780, "http")) == (
        "http://10.0.0.1:9780", "http://10.0.0.2:9780", "http://[fd00::1]:9780",
    )  # fmt: skip


def test_real_name_is_resolved():
    assert "http://127.0.0.1:9780" in find(DnsTargets("localhost", 9780, "http"))


@pytest.mark.parametrize("name", ["zmon.invalid", "node..example.org", f"{'a' * 64}.example.org"])
def test_name_that_does_not_exist_or_is_invalid_is_refused_with_one_line(name):
    with pytest.raises(ZmonError, match=re.escape(f"cannot resolve {name}")) as refused:
        find(DnsTargets(name, 9780, "http"))
    assert "\n" not in str(refused.value)
