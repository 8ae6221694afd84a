"""An authority, and configurations of servers with TLS."""

import pytest

from tests.web.certificates import SERVER, Certificates, live_config


@pytest.fixture
def authority(tmp_path):
    """An authority that has issued the certificate of a server."""
    certificates = Certificates(tmp_path)
    certificates.issue("server", "127.0.0.1")
    return certificates


@pytest.fixture
def make_config(tmp_path, authority):
    """Return a function that returns the configuration of a server with these keys of TLS."""
    return lambda **keys: live_config(tmp_path, tls_server_config=SERVER | keys)
