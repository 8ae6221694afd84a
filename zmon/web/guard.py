"""The guard against web pages of other sites, which may send requests through somebody's browser.

A page of another site may send requests to this machine, and may even read the answers if the name of its own site
resolves to this machine (DNS rebinding). Its requests carry its name in `Host` or in `Origin`. A program such as
Prometheus or curl sends no `Origin`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from zmon.web.connections import Handler

# Browsers must not guess that an answer is a script or a page, nor show it inside a page of another site.
HEADERS = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
_NO_DOT = re.compile(r"[\w-]+")


def guard(allowed_hosts: Collection[str] = (), authenticates: Callable[[], bool] = lambda: False) -> object:
    """Return a middleware that refuses requests for other names and from other sites.

    `allowed_hosts`: names of this daemon beside those that `names_this_machine` knows. While `authenticates()` is True,
    any name will do: a browser sends a password, token or certificate only to the name to which it belongs.
    """
    domains = search_domains(Path("/etc/resolv.conf"))

    @web.middleware
    async def refuse_other_sites(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host")
        origin = request.headers.get("Origin")
        if host is not None and not authenticates() and not names_this_machine(host, allowed_hosts, domains):
            raise web.HTTPForbidden(
                text="the name in the URL is not a name of this machine: use its address, or start zmon with "
                "--allowed-hosts NAME\n"
            )
        if origin is not None and origin.partition("://")[2].lower() != (host or "").lower():
            raise web.HTTPForbidden(text="pages of other sites may not ask zmon\n")
        return await handler(request)

    return refuse_other_sites


def names_this_machine(host: str, allowed_hosts: Collection[str] = (), domains: Collection[str] = ()) -> bool:
    """Return True if a `Host` header cannot be the name of a web site of somebody else.

    An address is never a name. A name without a dot is resolved within the network only, and the names in `domains`
    belong to those who run it.
    """
    name = _without_port(host).lower()
    try:
        ipaddress.ip_address(name)
    except ValueError:
        names = {os.uname().nodename.lower(), *(allowed.lower() for allowed in allowed_hosts)}
        return bool(_NO_DOT.fullmatch(name)) or name in names or any(name.endswith(f".{domain}") for domain in domains)
    return True


def search_domains(resolv_conf: Path) -> frozenset[str]:
    """Return the domains in which this machine looks up short names, such as `cluster.local`.

    A domain without a dot is left out, because it could be one in which anybody may have a name.
    """
    try:
        lines = resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    words = (line.split() for line in lines)
    domains = (name for line in words if line and line[0] in ("search", "domain") for name in line[1:])
    return frozenset(name.strip(".").lower() for name in domains if "." in name.strip("."))


def _without_port(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return host


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add `HEADERS` to an answer. Called by aiohttp for every answer."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
