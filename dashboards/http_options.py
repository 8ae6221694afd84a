"""The password, token or certificate with which the dashboard asks the hub and Prometheus.

It is in the file that ZMON_HTTP_CONFIG names, with a section for each server. The file, and the files that it names,
are read again for each request, since they are renewed while the dashboard runs. Proxies in the environment and
`.netrc` are ignored.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import yaml

from zmon.schema.http_config import OF_DASHBOARD, VARIABLE, ClientConfig, HttpConfig, Server, TlsConfig, client_config
from zmon.yaml_text import load_yaml


@dataclass(frozen=True)
class HttpOptions:
    """The arguments of a request of the library Requests."""

    auth: tuple[str, str] | None = None  # user and password
    headers: dict[str, str] | None = None
    verify: str | bool = True  # a path: the certificates to trust
    cert: tuple[str, str] | None = None  # the paths of the client's certificate and its key


def http_options(server: Server) -> HttpOptions:
    """Return the options for a server as of now. Raises ValueError or OSError if a file cannot be used."""
    config: HttpConfig = getattr(read_config(), server) or HttpConfig()
    tls = config.tls_config or TlsConfig()
    trusted: str | bool = str(tls.ca_file) if tls.ca_file else True
    return HttpOptions(
        auth=_password(config),
        headers=_token(config),
        verify=False if tls.insecure_skip_verify else trusted,
        cert=(str(tls.cert_file), str(tls.key_file)) if tls.cert_file else None,
    )


def read_config() -> ClientConfig:
    """Return the content of the file, empty without one. Raises ValueError or OSError if it cannot be used."""
    path = os.environ.get(VARIABLE)
    if not path:
        return ClientConfig()
    try:
        document = load_yaml(Path(path).read_text(encoding="utf-8")) or {}
    except yaml.YAMLError:  # its text repeats the file, which may hold a password
        raise ValueError("it is not YAML, or a key is given twice") from None
    config = client_config(document, Path(path).parent, OF_DASHBOARD)
    sections = [section for section in (config.hub, config.prometheus) if section]
    if any(section.tls_config and section.tls_config.server_name for section in sections):
        raise ValueError("the dashboard cannot use server_name: put the name of the certificate into the URL")
    return config


def _password(config: HttpConfig) -> tuple[str, str] | None:
    basic = config.basic_auth
    if basic is None:
        return None
    return basic.username, _content(basic.password_file) if basic.password_file else basic.password


def _token(config: HttpConfig) -> dict[str, str] | None:
    token = config.authorization
    if token is None:
        return None
    text = _content(token.credentials_file) if token.credentials_file else token.credentials
    return {"Authorization": f"{token.type} {text}"}


def _content(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()
