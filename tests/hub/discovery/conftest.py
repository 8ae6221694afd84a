"""A fixture: the token of a service account of Kubernetes."""

import pytest


@pytest.fixture
def token_file(tmp_path):
    """The path of a file with a token that the fake API server accepts."""
    path = tmp_path / "token"
    path.write_text("token-1")
    return path
