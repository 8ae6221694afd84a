"""The sessions in which daemons and commands ask servers, with the password, token or certificate of `--http-config`.

A session is for one kind of server, because it sends the same credentials to all of them. Proxies and `.netrc` are not
used. Files with passwords and tokens are read for each request. Certificates are read again once they have changed,
because they are renewed while the hub runs.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import aiohttp
import yaml

from zmon.errors import Unreachable, UsageError
from zmon.schema.http_config import (
    SERVERS,
    WITHOUT_TLS,
    ClientConfig,
    HttpConfig,
    Server,
    TlsConfig,
    client_config,
    may_carry_credentials,
)
from zmon.web.client import HEADERS, basic_auth
from zmon.web.tls import VERSIONS, FreshContext, load_authorities, load_certificate
from zmon.yaml_text import load_yaml, yaml_reason

Send = Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]


def read_http_config(path: Path, *servers: Server) -> ClientConfig:
    """Read and check a file, for a program that asks these servers. Raises UsageError with one line."""
    try:
        document = load_yaml(path.read_text(encoding="utf-8")) or {}
        config = client_config(document, path.parent, servers)
        for section in (getattr(config, server) for server in SERVERS):
            if section is not None and section.tls_config is not None:
                ClientTls.of(section.tls_config)  # raises UsageError if a file cannot be used
    except OSError as error:
        raise UsageError(f"cannot read {path}", str(error.strerror), "Correct --http-config") from error
    except (ValueError, yaml.YAMLError) as error:
        reason = f"it is not YAML: {yaml_reason(error)}" if isinstance(error, yaml.YAMLError) else str(error)
        raise UsageError(f"cannot use {path}", reason, "docs/deploy/security.md has all keys") from error
    return config


def check(config: HttpConfig) -> None:
    """Check that the files of a configuration can be used. Raises UsageError or Unreachable."""
    authorization(config)
    if config.tls_config is not None:
        ClientTls.of(config.tls_config)


def session(
    config: HttpConfig | None = None,
    limit: int = 100,
    headers: Mapping[str, str] | None = None,
    socket: Path | None = None,
) -> aiohttp.ClientSession:
    """Return a session.

    `limit`: the most connections at a time. `headers`: those of each request. `socket`: the Unix socket of the only
    server.
    """
    config = config or HttpConfig()

    async def identify(request: aiohttp.ClientRequest, send: Send) -> aiohttp.ClientResponse:
        if value := authorization(config):
            request.headers["Authorization"] = value
        if "Authorization" in request.headers and not may_carry_credentials(str(request.url)):
            next_step = "Write https:// in its URL, or take the password or token out of --http-config"
            raise Unreachable(f"{request.url.origin()} is not asked", WITHOUT_TLS, next_step)
        return await send(request)

    tls = ClientTls.of(config.tls_config) if config.tls_config else True
    connector: aiohttp.BaseConnector = aiohttp.TCPConnector(limit=limit, ssl=tls)
    if socket is not None:
        connector = aiohttp.UnixConnector(str(socket), limit=limit)
    return aiohttp.ClientSession(
        connector=connector,
        headers={**HEADERS, **(headers or {})},
        middlewares=(identify,),
        auto_decompress=False,
        trust_env=False,
    )


def authorization(config: HttpConfig) -> str:
    """Return the header of a request; empty if there is none. Raises Unreachable if a file cannot be read."""
    if basic := config.basic_auth:
        password = _content(basic.password_file) if basic.password_file else basic.password
        return basic_auth(basic.username, password)["Authorization"]
    if token := config.authorization:
        return f"{token.type} {_content(token.credentials_file) if token.credentials_file else token.credentials}"
    return ""


class ClientTls(ssl.SSLContext):
    """The context of a client. It makes each connection with a context of the files as they are then."""

    _server_name: str
    _fresh: FreshContext

    @classmethod
    def of(cls, config: TlsConfig) -> ClientTls:
        """Return the context of a configuration. Raises UsageError if a file of it cannot be used."""
        tls = cls(ssl.PROTOCOL_TLS_CLIENT)
        tls._server_name = config.server_name
        make = partial(_client_context, config)
        tls._fresh = FreshContext("this client", make, config.ca_file, config.cert_file, config.key_file)
        return tls

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Called by asyncio for each connection."""
        name = self._server_name or server_hostname
        return self._fresh.get().wrap_bio(incoming, outgoing, server_side, name, session)


def _client_context(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = VERSIONS[config.min_version]
    if config.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if config.ca_file is None:
        context.load_default_certs()
    else:
        load_authorities(context, config.ca_file)
    if config.cert_file is not None and config.key_file is not None:
        load_certificate(context, config.cert_file, config.key_file)
    return context


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise Unreachable(f"cannot read {path}", getattr(error, "strerror", None) or str(error)) from error
