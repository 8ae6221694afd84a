"""Tests of the sections of --http-config: which server sees which password, token or certificate."""

from pathlib import Path

import pytest

from zmon.schema.http_config import SERVERS, BasicAuth, HttpConfig, TlsConfig, client_config

FOLDER = Path("/etc/zmon")
ANN = {"username": "ann", "password": "a"}
BOB = {"username": "bob", "password": "b"}


def shown(document, *servers):
    """Return the user name that a server sees, by server; a server that sees none is absent."""
    config = client_config(document, FOLDER, servers)
    sections = ((server, getattr(config, server)) for server in SERVERS)
    return {server: each.basic_auth.username for server, each in sections if each and each.basic_auth}


def test_each_server_sees_what_its_section_has():
    document = {"hub": {"basic_auth": ANN}, "prometheus": {"basic_auth": BOB}}
    assert shown(document, *SERVERS) == {"hub": "ann", "prometheus": "bob"}
    assert shown(document, "agents") == {"hub": "ann", "prometheus": "bob"}


def test_password_of_a_file_without_sections_is_for_the_only_server_that_is_asked():
    """Files of earlier versions have no sections."""
    assert shown({"basic_auth": ANN}, "agents") == {"agents": "ann"}
    assert shown({"basic_auth": ANN}, "hub") == {"hub": "ann"}


REFUSED = {  # the file, the servers that are asked, and what to write
    "doctor": ({"basic_auth": ANN}, SERVERS, "basic_auth must be for one server: .* agents:, hub:, prometheus:"),
    "dashboard": ({"authorization": {}}, SERVERS[1:], "authorization must be for one server: .* hub:, prometheus:"),
    "beside sections": ({"basic_auth": ANN, "hub": {}}, ("hub",), "basic_auth must be for one server: .* hub:"),
}


@pytest.mark.parametrize(("document", "servers", "line"), REFUSED.values(), ids=REFUSED)
def test_password_that_could_be_for_several_servers_is_refused_with_what_to_write(document, servers, line):
    with pytest.raises(ValueError, match=line):
        client_config(document, FOLDER, servers)


def test_certificate_outside_of_sections_is_for_all_servers_that_have_none():
    """A server that sees it cannot use it."""
    config = client_config(
        {"tls_config": {"ca_file": "ca.pem"}, "agents": {"tls_config": {"ca_file": "other.pem"}},
         "prometheus": {"basic_auth": ANN}},
        FOLDER, SERVERS,
    )  # fmt: skip
    ours = TlsConfig(ca_file=FOLDER / "ca.pem")
    assert config.agents == HttpConfig(tls_config=TlsConfig(ca_file=FOLDER / "other.pem"))
    assert config.hub == HttpConfig(tls_config=ours)
    assert config.prometheus == HttpConfig(BasicAuth("ann", "a"), tls_config=ours)
    assert client_config({}, FOLDER, SERVERS).hub is None


@pytest.mark.parametrize(
    "section", [{"basic_auth": ANN, "authorization": {}}, {"tls_config": {"cert_file": "a"}}, {"x": 1}]
)
def test_section_is_checked_like_the_file(section):
    with pytest.raises(ValueError, match=r"both|unknown field `x`"):
        client_config({"hub": section}, FOLDER, SERVERS)
