"""Targets in DNS: the addresses of a name, such as a headless service of Kubernetes, or the records of a service."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import dns.asyncresolver
import dns.exception

from zmon.errors import ZmonError
from zmon.hub.discovery.target import PolledSource, in_order
from zmon.web.addresses import host_in_url

_INTERVAL_SECONDS = 30.0  # as Prometheus' dns_sd_config
_TIMEOUT_SECONDS = 5.0


class DnsTargets(PolledSource):
    """All addresses of a name, IPv4 and IPv6, with one port."""

    interval_seconds = _INTERVAL_SECONDS

    def __init__(self, name: str, port: int, scheme: str) -> None:
        self.name, self._host, self._port, self._scheme = f"dns:{name}:{port}", name, port, scheme

    async def find(self, session: aiohttp.ClientSession) -> tuple[str, ...]:
        """Return a URL for each address. Raises ZmonError."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                addresses = await asyncio.get_running_loop().getaddrinfo(
                    self._host, self._port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
                )
        except (OSError, UnicodeError, TimeoutError) as error:  # UnicodeError: no name, such as node..example.org
            raise ZmonError(f"cannot resolve {self._host}", str(error) or "no answer in time") from error
        hosts = {str(address[0]) for _, _, _, _, address in addresses}
        return in_order([f"{self._scheme}://{host_in_url(host)}:{self._port}" for host in hosts])


class SrvTargets(PolledSource):
    """The hosts and ports of a service, such as `_zmon-agent._tcp.example.org` (RFC 2782)."""

    interval_seconds = _INTERVAL_SECONDS

    def __init__(self, service: str, scheme: str) -> None:
        self.name, self._service, self._scheme = f"srv:{service}", service, scheme

    async def find(self, session: aiohttp.ClientSession) -> tuple[str, ...]:
        """Return a URL for each record. Raises ZmonError."""
        try:
            answer = await dns.asyncresolver.resolve(self._service, "SRV", lifetime=_TIMEOUT_SECONDS)
        except dns.exception.DNSException as error:
            raise ZmonError(f"cannot resolve {self._service}", str(error) or type(error).__name__) from error
        records = [(record.target.to_text(omit_final_dot=True), record.port) for record in answer]
        return in_order([f"{self._scheme}://{host_in_url(host)}:{port}" for host, port in records])
