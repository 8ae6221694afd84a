"""Access: each request needs a principal with the role of its path.

A principal is somebody who shows a password, a bearer token or a client certificate. `/livez` and `/readyz` need no
principal: they only say whether the daemon runs and has data.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path

from aiohttp import web

from zmon.errors import UsageError
from zmon.schema.api.endpoint import DEFAULT_ROLES, Role
from zmon.web.connections import Handler, HttpConnection
from zmon.web.passwords import Passwords
from zmon.web.responses import Refusal, problem
from zmon.web.tls import names_in
from zmon.web.web_config import WebConfig

OPEN_PATHS = ("/livez", "/readyz")
_MIN_TOKEN_BYTES, _MAX_TOKEN_BYTES = 16, 4096  # a longer token is cut
# The roles of whoever sent the request that is being handled; empty if anybody may ask.
ROLES: ContextVar[frozenset[Role]] = ContextVar("roles", default=frozenset())


class Access:
    """The principals of one server."""

    def __init__(self, config: WebConfig, before: Access | None = None) -> None:
        """Read the tokens. Raises UsageError. `before`: the principals before a reload, whose passwords are known."""
        self._config = config
        self._passwords: Passwords = Passwords(config.basic_auth_users, before._passwords if before else None)
        self._tokens = [
            (_read_token(principal.token_file), principal) for principal in config.zmon_roles if principal.token_file
        ]

    async def roles(self, request: web.Request) -> frozenset[Role] | None:
        """Return the roles of the sender of a request; None if it is not known who that is."""
        certificate = request.transport.get_extra_info("peercert") if request.transport else None
        names = names_in(certificate)
        tls = self._config.tls_server_config
        if tls is not None and not tls.allows(names):  # by the list as it is now; the connection may be older
            return None
        roles = self._roles_of("client_san", names)
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "basic" and self._config.basic_auth_users:
            user_roles = await self._roles_of_user(credentials, request.remote or "")
            return None if user_roles is None else roles | user_roles
        if scheme.lower() == "bearer" and self._tokens:
            token_roles = self._roles_of_token(credentials)
            return None if token_roles is None else roles | token_roles
        # Without users or tokens the header means nothing. A certificate without a role suffices if there are no users.
        is_known = bool(roles) or (bool(certificate) and not self._config.basic_auth_users)
        return (roles or self._default_roles) if is_known else None

    async def _roles_of_user(self, credentials: str, peer: str) -> frozenset[Role] | None:
        """Return the roles of a user by name and password; None if they are not right."""
        user, password = _user_and_password(credentials)
        if not await self._passwords.are_right(user, password, peer):
            return None
        return self._roles_of("user", frozenset((user,))) or self._default_roles

    def _roles_of_token(self, credentials: str) -> frozenset[Role] | None:
        """Return the roles of a bearer token; None if no principal has it. All are compared, in constant time."""
        shown = credentials.strip().encode("utf-8", "surrogateescape")
        matching = [principal for token, principal in self._tokens if hmac.compare_digest(token, shown)]
        return frozenset(matching[0].roles) if matching else None

    @property
    def _default_roles(self) -> frozenset[Role]:
        """The roles of a principal that `zmon_roles` does not name: none, once it names anybody."""
        return frozenset() if self._config.zmon_roles else DEFAULT_ROLES

    def _roles_of(self, kind: str, names: frozenset[str]) -> frozenset[Role]:
        """Return the roles of principals with one of these names; `kind`: the field of `Principal` that is compared."""
        return frozenset(
            role
            for principal in self._config.zmon_roles
            if (name := getattr(principal, kind)) and name in names
            for role in principal.roles
        )


def check_access(current: Callable[[], Access | None], needed: Mapping[str, Role]) -> object:
    """Return a middleware that refuses requests without the role of their path: 401 or 403.

    `current` returns the principals as of now, or None if anybody may ask. `needed`: the role of each path, as a route
    has it; another path needs `read`.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        access = current()
        if access is None:
            return await handler(request)
        connection = request.protocol
        if isinstance(connection, HttpConnection):
            connection.is_known = False
        if request.path in OPEN_PATHS:
            return await handler(request)
        try:
            roles = await access.roles(request)
        except Refusal as refusal:
            return problem(str(refusal), refusal.status)
        if roles is None:
            refused = problem("it is not known who asks", 401)
            refused.headers["WWW-Authenticate"] = "Basic"
            return refused
        if isinstance(connection, HttpConnection):
            connection.is_known = True
        resource = request.match_info.route.resource
        role = needed.get(resource.canonical if resource else "", "read")
        if role not in roles:
            return problem(f"this needs the role {role}: see zmon_roles in --web.config.file", 403)
        token = ROLES.set(roles)
        try:
            return await handler(request)
        finally:
            ROLES.reset(token)

    return check


def _user_and_password(credentials: str) -> tuple[str, str]:
    """Decode the credentials of the scheme `Basic`. Both are empty, as those of no user are, if that fails."""
    try:
        text = base64.b64decode(credentials.strip(), validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        return "", ""
    user, _, password = text.partition(":")
    return user, password


def _read_token(path: Path) -> bytes:
    """Return the first line of a token file. Raises UsageError."""
    try:
        with path.open("rb") as file:
            token = file.readline(_MAX_TOKEN_BYTES).strip()
    except OSError as error:
        raise UsageError(f"cannot read {path}", str(error.strerror), "Correct token_file in zmon_roles") from error
    if len(token) < _MIN_TOKEN_BYTES:
        why = f"a token needs {_MIN_TOKEN_BYTES} characters or more"
        raise UsageError(f"cannot use {path}", why, "For example: openssl rand -hex 32")
    return token
