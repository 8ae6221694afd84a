"""Tests of the file of --web.config.file: the keys of exporter-toolkit, and one line about whatever is wrong."""

import re

import pytest

from tests.web.certificates import BCRYPT_HASH
from zmon.errors import UsageError
from zmon.web.tls import names_in
from zmon.web.web_config import read_web_config

WHOLE = f"""
tls_server_config:
  cert_file: server.pem
  key_file: /etc/keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [hub.example.org]
  min_version: TLS13
http_server_config:
  http2: true
  headers:
    X-Frame-Options: deny
    Strict-Transport-Security: max-age=31536000
basic_auth_users:
  prometheus: {BCRYPT_HASH}
zmon_roles:
  - user: prometheus
    roles: [metrics]
  - client_san: hub.example.org
    roles: [read, evidence]
  - token_file: token
    roles: [read]
"""
TLS = "tls_server_config: {cert_file: a.pem, key_file: a.key"


@pytest.fixture
def read(tmp_path):
    """Return a function that writes this text to a file and reads the configuration in it."""

    def read(text):
        path = tmp_path / "web.yaml"
        path.write_text(text)
        return read_web_config(path)

    return read


def test_paths_are_relative_to_the_file(read, tmp_path):
    config = read(WHOLE)
    tls = config.tls_server_config
    assert (tls.cert_file, str(tls.key_file)) == (tmp_path / "server.pem", "/etc/keys/server.key")
    assert tls.client_ca_file == tmp_path / "ca.pem"
    assert config.zmon_roles[-1].token_file == tmp_path / "token"


def test_every_section_of_a_file_is_read(read, tmp_path):
    config = read(WHOLE)
    tls = config.tls_server_config
    assert (tls.min_version, tls.client_allowed_sans) == ("TLS13", ("hub.example.org",))
    assert config.http_server_config.headers.frame_options == "deny"
    assert [(role.user, role.client_san, role.token_file) for role in config.zmon_roles] == [
        ("prometheus", "", None), ("", "hub.example.org", None), ("", "", tmp_path / "token")
    ]  # fmt: skip
    assert config.authenticates


@pytest.mark.parametrize("text", ["", "{}", "http_server_config: {http2: false}", f"{TLS}}}"])
def test_file_without_users_lets_everybody_ask(read, text):
    assert not read(text).authenticates


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tls_server_config: {cert_fil: a}", "unknown field `cert_fil` - at `$.tls_server_config`"),
        ("tls_config: {}", "unknown field `tls_config`"),
        ("http_server_config: {headers: {Server: x}}", "unknown field `Server`"),
        ("http_server_config: {headers: {X-Frame-Options: no}}", "X-Frame-Options"),
        ("tls_server_config: {cert_file: a.pem}", "no key_file"),
        (f"{TLS}, min_version: TLS9}}", "'TLS9'"),
        (f"{TLS}, min_version: TLS13, max_version: TLS12}}", "above max_version"),
        (f"{TLS}, client_ca_file: ca.pem}}", "does nothing without client_auth_type"),
        (f"{TLS}, client_auth_type: RequireAndVerifyClientCert}}", "needs a client_ca_file"),
        (f"{TLS}, client_auth_type: RequireAnyClientCert}}", "use RequireAndVerifyClientCert"),
        (f"{TLS}, client_allowed_sans: [a]}}", "needs client_auth_type"),
        ("basic_auth_users: {ann: secret}", "no bcrypt hash"),
        (f"basic_auth_users: {{ann: {BCRYPT_HASH.replace('$10$', '$99$')}}}", "no bcrypt hash"),
        (f"basic_auth_users: {{'': {BCRYPT_HASH}}}", "has no name"),
        ('http_server_config: {headers: {Content-Security-Policy: "a\\nb"}}', "one line of printable text"),
        ("zmon_roles: [{user: ann, roles: [read]}]", "not in basic_auth_users"),
        ("zmon_roles: [{roles: [read]}]", "exactly one of"),
        ("zmon_roles: []", "zmon_roles is empty"),
        (2 * f"basic_auth_users: {{a: {BCRYPT_HASH}}}\n", "basic_auth_users is given twice, in line 2"),
        (f"basic_auth_users: {{ann: {BCRYPT_HASH}, ann: {BCRYPT_HASH}}}", "ann is given twice"),
        ("zmon_roles: [{client_san: a, roles: [read]}]", "needs a client_ca_file"),
        ("zmon_roles: [{token_file: a, roles: [write]}]", "'write'"),
        ("a: [", "not YAML"),
        ("- a", "Expected `object`"),
    ],
)
def test_wrong_file_is_refused(read, text, reason):
    with pytest.raises(UsageError, match=re.escape(reason)):
        read(text)


def test_error_of_yaml_does_not_repeat_the_file(read):
    with pytest.raises(UsageError, match=r"not YAML: .*, in line 2") as refused:
        read(f"basic_auth_users:\n  ann: @{BCRYPT_HASH}")
    assert BCRYPT_HASH not in str(refused.value)


def test_addresses_are_compared_in_their_shortest_form(read):
    config = read(
        f"{TLS}, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem, "
        "client_allowed_sans: ['2001:DB8:0:0:0:0:0:1']}"
    )
    assert config.tls_server_config.client_allowed_sans == ("2001:db8::1",)
    certificate = {"subjectAltName": (("IP Address", "2001:DB8:0:0:0:0:0:1"), ("DNS", ""))}
    assert names_in(certificate) == {"2001:db8::1"}


def test_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*No such file"):
        read_web_config(tmp_path / "none.yaml")
