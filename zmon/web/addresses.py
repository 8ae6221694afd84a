"""The ports of the daemons, and the form of names and addresses in URLs. Pure."""

from __future__ import annotations

AGENT_PORT, HUB_PORT = 9780, 9781  # without --port


def host_in_url(host: str) -> str:
    """Return a name or an address as it is in a URL: an address of IPv6 is in brackets."""
    return f"[{host}]" if ":" in host else host
