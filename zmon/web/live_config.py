"""The web configuration of a running server. SIGHUP reads the file again; a broken file changes nothing."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from zmon.errors import UsageError
from zmon.web.access import Access
from zmon.web.tls import names_in, server_tls
from zmon.web.web_config import WebConfig, read_web_config

log = logging.getLogger("zmon.config")


class LiveConfig:
    """The last valid content of the file and of the files that it names."""

    def __init__(self, path: Path) -> None:
        """Read the file and all files that it names. Raises UsageError."""
        self.path = path
        self.config = read_web_config(path)
        self.access = _access(self.config)
        self._tls = server_tls(self.config.tls_server_config)
        self._has_failed_reload = False

    @property
    def has_tls(self) -> bool:
        return self._tls is not None

    def is_current(self) -> bool:
        """Return True if the server uses all files as they are now. A changed certificate is read first."""
        if self._tls is not None:
            self._tls.get()  # clients may keep their connections, so that no handshake reads the files
        return not (self._has_failed_reload or (self._tls is not None and self._tls.is_outdated))

    def context(self) -> ssl.SSLContext | None:
        """Return the context for a new connection; None without TLS."""
        return self._tls.get() if self._tls else None

    def is_allowed(self, certificate: dict[str, object] | None) -> bool:
        """Return True if the client of a new connection has a name that `client_allowed_sans` lists."""
        tls = self.config.tls_server_config
        return tls is None or tls.allows(names_in(certificate))

    def reload(self) -> None:
        """Read all files again.

        TLS is neither switched on nor off, because clients could not follow. A file without users or roles is refused
        if there were some, because it may be half written.
        """
        try:
            config = read_web_config(self.path)
            if change := _unsafe_change(self.config, config):
                raise UsageError(f"cannot use {self.path}", f"it {change}", "Start the daemon again if that is wanted")
            tls = server_tls(config.tls_server_config)
            access = _access(config, self.access)
        except Exception as error:  # whatever it is, the daemon goes on with what it has
            self._has_failed_reload = True
            log.error("the web configuration stays as it was: %s", error)
            return
        self.config, self._tls, self.access = config, tls, access
        self._has_failed_reload = False
        log.info("%s was read again", self.path)


def reload_success(live: LiveConfig | None) -> float | None:
    """Return the value of `zmon_config_reload_success`; None without a file."""
    return None if live is None else float(live.is_current())


def _unsafe_change(before: WebConfig, after: WebConfig) -> str:
    """Return why a reload must not use the new file; empty if it may."""
    if (before.tls_server_config is None) != (after.tls_server_config is None):
        return "switches TLS on or off"
    if before.authenticates and not after.authenticates:
        return "lets anybody ask"
    if before.zmon_roles and not after.zmon_roles:
        return "has no zmon_roles any more"
    return ""


def _access(config: WebConfig, before: Access | None = None) -> Access | None:
    return Access(config, before) if config.authenticates else None
