"""A port of loopback for a server that a test starts."""

import socket


def free_port(preferred: int = 0) -> int:
    """Return a port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", preferred))
        return int(probe.getsockname()[1])
