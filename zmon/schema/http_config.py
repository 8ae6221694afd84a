"""Password, token and TLS of a client, with the keys of Prometheus' `http_config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

VARIABLE = "ZMON_HTTP_CONFIG"  # the environment variable with the path of the file
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
    """The whole file. Redirects are never followed."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    tls_config: TlsConfig | None = None
    follow_redirects: Literal[False] = False


def http_config(document: Any, directory: Path) -> HttpConfig:
    """Return a file's content, with paths relative to its directory. Raises ValueError with one line."""
    config: HttpConfig = msgspec.convert(document, HttpConfig, dec_hook=lambda _, value: directory / str(value))
    if config.basic_auth is not None and config.authorization is not None:
        raise ValueError("it has both basic_auth and authorization; a request can have one of them")
    tls = config.tls_config
    if tls is not None and (tls.cert_file is None) != (tls.key_file is None):
        raise ValueError("tls_config needs both cert_file and key_file, or neither")
    return config
