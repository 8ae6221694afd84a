"""TLS: contexts for handshakes, from certificate files that may be renewed while the daemon runs."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from zmon.errors import UsageError
from zmon.web.web_config import TlsServerConfig, plain_address

log = logging.getLogger("zmon.config")

_RETRY_SECONDS = 1.0  # time between two attempts to read files that cannot be used

VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}


class FreshContext:
    """The context of a server or a client, made again before a handshake if a file has changed.

    If the new files are broken, the server or client keeps its old certificates and logs the reason.
    """

    def __init__(self, owner: str, make: Callable[[], ssl.SSLContext], *files: Path | None) -> None:
        """Read the files. Raises UsageError. `owner`: the server or client, as in log messages."""
        self._owner, self._make, self._files = owner, make, files
        self.is_outdated = False  # the newest files cannot be used
        self._stamps = self._current_stamps()  # of the files that were read last
        self._read_at = time.monotonic()
        self._context = make()

    def get(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        current = self._current_stamps()
        is_retry = self.is_outdated and time.monotonic() - self._read_at >= _RETRY_SECONDS
        if current != self._stamps or is_retry:
            self._stamps = current
            self._read_at = time.monotonic()
            try:
                self._context = self._make()
                self.is_outdated = False
                log.info("the certificate of %s was read again", self._owner)
            except UsageError as error:
                self.is_outdated = True
                log.error("%s keeps its certificate: %s", self._owner, error)
        return self._context

    def _current_stamps(self) -> list[object]:
        return [_stamp(path) for path in self._files if path is not None]


def server_tls(config: TlsServerConfig | None) -> FreshContext | None:
    """Return the context of a server; None without TLS. Raises UsageError."""
    if config is None:
        return None
    files = config.cert_file, config.key_file, config.client_ca_file
    return FreshContext("the server", lambda: server_context(config), *files)


def server_context(config: TlsServerConfig) -> ssl.SSLContext:
    """Return a context with the files as they are now. Raises UsageError with one line."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[config.min_version]
    context.maximum_version = VERSIONS[config.max_version]
    context.set_alpn_protocols(["http/1.1"])
    if config.min_version in ("TLS10", "TLS11"):
        context.set_ciphers("DEFAULT:@SECLEVEL=0")  # OpenSSL 3 refuses these versions otherwise
    assert config.cert_file is not None
    assert config.key_file is not None  # web_config.py checks both
    load_certificate(context, config.cert_file, config.key_file)
    if config.client_ca_file is not None:
        load_authorities(context, config.client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED if config.verifies_clients else ssl.CERT_OPTIONAL
    return context


def load_certificate(context: ssl.SSLContext, cert_file: Path, key_file: Path) -> None:
    """Read a certificate and its key. Raises UsageError with one line."""
    for path in (cert_file, key_file):
        _check_readable(path)
    try:
        context.load_cert_chain(cert_file, key_file, password="")  # or OpenSSL asks for one on the terminal
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise UsageError(
            f"cannot use the certificate {cert_file} with the key {key_file}",
            "the key is of another certificate" if reason == "KEY_VALUES_MISMATCH" else f"not a PEM pair ({reason})",
            "Compare `openssl x509 -noout -pubkey -in CERT` and `openssl pkey -pubout -in KEY`",
        ) from error


def load_authorities(context: ssl.SSLContext, path: Path) -> None:
    """Read the certificates of authorities. Raises UsageError with one line."""
    _check_readable(path)
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        why = f"it has no certificate of an authority ({reason})"
        raise UsageError(f"cannot use {path}", why, "It must be a PEM file") from error


def names_in(certificate: dict[str, object] | None) -> frozenset[str]:
    """Return the subject alternative names of a verified certificate, as `ssl` describes it."""
    pairs = (certificate or {}).get("subjectAltName", ())
    assert isinstance(pairs, tuple)
    return frozenset(plain_address(str(value)) for _, value in pairs if value)


def _check_readable(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {path}", reason, "Correct the path or its rights") from error


def _stamp(path: Path) -> tuple[int, int, int, int] | None:
    """Return inode, size and times of the last changes of a file. Its change or replacement changes one of them."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
