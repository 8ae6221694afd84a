"""The file of `--web.config.file`: TLS, users and roles of a server.

Its keys are those of Prometheus' exporter-toolkit (docs/web-configuration.md there), so one file serves Prometheus,
Alertmanager, exporters and zmon. `zmon_roles` is zmon's own; leave it out of a file that others read too.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from zmon.errors import UsageError
from zmon.schema.api.endpoint import Role
from zmon.schema.http_config import TlsVersion
from zmon.yaml_text import load_yaml, yaml_reason

# exporter-toolkit also has RequestClientCert and RequireAnyClientCert. These accept certificates without verification,
# and exporter-toolkit calls them insecure. Python's ssl verifies every certificate that it asks for.
ClientAuth = Literal["", "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")
_HASH = re.compile(r"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")  # bcrypt


class TlsServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificate of the server, and what it demands of clients."""

    cert_file: Path | None = None
    key_file: Path | None = None
    client_auth_type: ClientAuth = ""
    client_ca_file: Path | None = None
    client_allowed_sans: tuple[str, ...] = ()
    min_version: TlsVersion = "TLS12"
    max_version: TlsVersion = "TLS13"

    @property
    def verifies_clients(self) -> bool:
        """True if every client must have a valid certificate."""
        return self.client_auth_type == "RequireAndVerifyClientCert"

    def allows(self, names: frozenset[str]) -> bool:
        """Return True if a client whose certificate has these names may connect."""
        return not self.client_allowed_sans or not names.isdisjoint(self.client_allowed_sans)


class Headers(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={
        "content_security_policy": "Content-Security-Policy",
        "frame_options": "X-Frame-Options",
        "content_type_options": "X-Content-Type-Options",
        "xss_protection": "X-XSS-Protection",
        "strict_transport_security": "Strict-Transport-Security",
    },
):
    """The headers that may be added to answers."""

    content_security_policy: str | None = None
    frame_options: Literal["deny", "sameorigin"] | None = None
    content_type_options: Literal["nosniff"] | None = None
    xss_protection: str | None = None
    strict_transport_security: str | None = None


class HttpServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """HTTP of the server. zmon speaks HTTP/1.1 only, whatever `http2` says."""

    http2: bool = True
    headers: Headers = Headers()


class Principal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who asks, recognized in one of three ways, and what they may do."""

    roles: tuple[Role, ...]
    user: str = ""  # of basic_auth_users
    client_san: str = ""  # a name in a verified client certificate
    token_file: Path | None = None  # its first line is a bearer token


class WebConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = HttpServerConfig()
    basic_auth_users: dict[str, str] = {}
    zmon_roles: tuple[Principal, ...] = ()

    @property
    def authenticates(self) -> bool:
        """True if a request must show who sends it, with a password, a token or a certificate."""
        tls = self.tls_server_config
        return bool(self.basic_auth_users or self.zmon_roles) or (tls is not None and tls.verifies_clients)


def read_web_config(path: Path) -> WebConfig:
    """Read and check a file. Paths in it are relative to its directory. Raises UsageError with one line."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}", str(error.strerror), "Correct --web.config.file") from error
    try:
        document = load_yaml(text) or {}
        if isinstance(document, dict) and document.get("zmon_roles") == []:
            raise ValueError("zmon_roles is empty: leave it out, or say who has which role")
        config = msgspec.convert(
            document, WebConfig, dec_hook=lambda wanted, value: _decode_path(path.parent, wanted, value), strict=True
        )
        _check(config)
    except yaml.YAMLError as error:
        raise UsageError(f"cannot use {path}", f"it is not YAML: {yaml_reason(error)}") from error
    except (msgspec.ValidationError, ValueError) as error:
        reason = _with_hint(str(error))
        raise UsageError(f"cannot use {path}", reason, "docs/deploy/security.md has all keys") from error
    return _with_plain_addresses(config)


def plain_address(name: str) -> str:
    """Return a name in a certificate; an IP address in its shortest form, as people write it."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _decode_path(directory: Path, wanted: type, value: object) -> Path:
    if wanted is not Path or not isinstance(value, str):
        raise ValueError(f"{value!r} is not a path")
    return directory / value


def _with_hint(message: str) -> str:
    if any(word in message for word in _UNVERIFIED):
        return f"{message}; zmon verifies every client certificate: use RequireAndVerifyClientCert"
    return message


def _check(config: WebConfig) -> None:
    """Check what the types do not say. Raises ValueError."""
    for name, value in msgspec.to_builtins(config.http_server_config.headers).items():
        if not value.isprintable():
            raise ValueError(f"the header {name} must be one line of printable text")
    tls = config.tls_server_config
    if tls is not None:
        _check_tls(tls)
    for user, password in config.basic_auth_users.items():
        if not user:
            raise ValueError("a user in basic_auth_users has no name")
        if not _HASH.fullmatch(password):
            raise ValueError(f"the password of {user} in basic_auth_users is no bcrypt hash (htpasswd -nBC 10 {user})")
    for principal in config.zmon_roles:
        if sum(map(bool, (principal.user, principal.client_san, principal.token_file))) != 1:
            raise ValueError("each entry of zmon_roles needs exactly one of user, client_san and token_file")
        if principal.user and principal.user not in config.basic_auth_users:
            raise ValueError(f"{principal.user} in zmon_roles is not in basic_auth_users")
        if principal.client_san and (tls is None or tls.client_ca_file is None):
            raise ValueError(f"{principal.client_san} in zmon_roles needs a client_ca_file in tls_server_config")


def _check_tls(tls: TlsServerConfig) -> None:
    if tls.cert_file is None or tls.key_file is None:
        raise ValueError(f"tls_server_config has no {'cert_file' if tls.cert_file is None else 'key_file'}")
    asks_for_certificates = tls.client_auth_type not in ("", "NoClientCert")
    if tls.client_ca_file is not None and not asks_for_certificates:
        raise ValueError("client_ca_file does nothing without client_auth_type: RequireAndVerifyClientCert")
    if asks_for_certificates and tls.client_ca_file is None:
        raise ValueError(f"client_auth_type: {tls.client_auth_type} needs a client_ca_file")
    if tls.client_allowed_sans and not tls.verifies_clients:
        raise ValueError("client_allowed_sans needs client_auth_type: RequireAndVerifyClientCert")
    if tls.min_version > tls.max_version:
        raise ValueError(f"min_version {tls.min_version} is above max_version {tls.max_version}")


def _with_plain_addresses(config: WebConfig) -> WebConfig:
    """Return the configuration with addresses in their shortest form."""
    tls = config.tls_server_config
    if tls is not None:
        tls = msgspec.structs.replace(tls, client_allowed_sans=tuple(map(plain_address, tls.client_allowed_sans)))
    principals = tuple(
        msgspec.structs.replace(principal, client_san=plain_address(principal.client_san))
        for principal in config.zmon_roles
    )
    return msgspec.structs.replace(config, tls_server_config=tls, zmon_roles=principals)
