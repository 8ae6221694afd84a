"""Password, token and TLS of a client: a section for each kind of server, with the keys of Prometheus' `http_config`.

A server gets what its own section has. Whoever sees a password or a token can use it elsewhere. So a password or token
is for one kind of server, and without TLS it is sent only to this machine. A `tls_config` outside of the sections is
for all servers: a certificate shows who asks, and whoever sees it cannot use it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec

VARIABLE = "ZMON_HTTP_CONFIG"  # the environment variable with the path of the file
Server = Literal["agents", "hub", "prometheus"]
SERVERS: tuple[Server, ...] = get_args(Server)
OF_DASHBOARD: tuple[Server, ...] = ("hub", "prometheus")  # the servers that it asks
WITHOUT_TLS = "without TLS, anybody on the network could read the password or token for it"
TlsVersion = Literal["TLS10", "TLS11", "TLS12", "TLS13"]


class BasicAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user with a password, or with the file that has it."""

    username: str
    password: str = ""
    password_file: Path | None = None


class Authorization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token, or the file that has it."""

    type: str = "Bearer"
    credentials: str = ""
    credentials_file: Path | None = None


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The certificate of the client, and how the server is verified."""

    ca_file: Path | None = None  # None: the authorities of this machine
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str = ""  # the name that the server's certificate must have; "": the host in the URL
    insecure_skip_verify: bool = False
    min_version: TlsVersion = "TLS12"


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Password, token and TLS for one kind of server. Redirects are never followed."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    tls_config: TlsConfig | None = None
    follow_redirects: Literal[False] = False

    @property
    def credentials_key(self) -> str:
        """The key that has the password or the token: basic_auth or authorization; "" if there is none."""
        if self.basic_auth is not None:
            return "basic_auth"
        return "authorization" if self.authorization is not None else ""


class _File(HttpConfig, frozen=True, forbid_unknown_fields=True):
    """The whole file: sections, and what is outside of them."""

    agents: HttpConfig | None = None
    hub: HttpConfig | None = None
    prometheus: HttpConfig | None = None


class ClientConfig(msgspec.Struct, frozen=True):
    """Password, token and TLS for each kind of server; None: nothing."""

    agents: HttpConfig | None = None
    hub: HttpConfig | None = None
    prometheus: HttpConfig | None = None


def client_config(document: Any, directory: Path, servers: Collection[Server]) -> ClientConfig:
    """Return a file's content, with paths relative to its directory. Raises ValueError with one line.

    `servers`: the servers that this program asks. Files of earlier versions have no sections, only a password or token
    outside of them. This is allowed only if the program asks one server, which then gets it.
    """
    file: _File = msgspec.convert(document, _File, dec_hook=lambda _, value: directory / str(value))
    sections = {server: section for server in SERVERS if (section := getattr(file, server)) is not None}
    for config in (file, *sections.values()):
        _check(config)
    if file.credentials_key and (sections or len(servers) != 1):
        names = ", ".join(f"{server}:" for server in SERVERS if server in servers)
        raise ValueError(f"its {file.credentials_key} must be for one server: write it below one of {names}")
    return ClientConfig(
        **{server: _section(file, sections.get(server), is_asked=server in servers) for server in SERVERS}
    )


def _section(file: _File, section: HttpConfig | None, *, is_asked: bool) -> HttpConfig | None:
    """Return what one kind of server gets: its section, completed by what the file has outside of the sections."""
    if section is not None:
        return section if section.tls_config else msgspec.structs.replace(section, tls_config=file.tls_config)
    if file.credentials_key and is_asked:
        return HttpConfig(file.basic_auth, file.authorization, file.tls_config)
    return HttpConfig(tls_config=file.tls_config) if file.tls_config else None


def _check(config: HttpConfig) -> None:
    if config.basic_auth is not None and config.authorization is not None:
        raise ValueError("it has both basic_auth and authorization; a request can have one of them")
    tls = config.tls_config
    if tls is not None and (tls.cert_file is None) != (tls.key_file is None):
        raise ValueError("tls_config needs both cert_file and key_file, or neither")


def may_carry_credentials(url: str) -> bool:
    """Return True if nobody else can read what is sent to a URL: it has TLS, or does not leave this machine."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" or is_loopback(parts.hostname or "")
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Return True if a host, an address or a name, is this machine itself."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
