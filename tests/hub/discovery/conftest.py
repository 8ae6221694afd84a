"""The token of a service account of Kubernetes."""

import pytest


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("token-1")
    return path
