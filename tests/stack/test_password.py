"""Tests of the password of Alertmanager. It is private, stays the same, and Alertmanager accepts its hash."""

import re
import subprocess

import pytest
import requests
from aiohttp.test_utils import unused_port

from tests.boxes import eventually
from zmon.stack import find_program, password
from zmon.stack.config import alertmanager_web_yaml, alertmanager_yaml, allowed_origins


def test_password_is_made_once_and_is_private(tmp_path):
    first = password.password(tmp_path)
    assert len(first) > 40
    assert password.password(tmp_path) == first
    assert (tmp_path / password.FILE).stat().st_mode & 0o777 == 0o600


def replace_by_a_link(file):
    """Move a file away, and put a link to it in its place."""
    file.symlink_to(file.rename(file.with_name("elsewhere")))


DAMAGES = {
    "others may read it": lambda file: file.chmod(0o644),
    "empty": lambda file: file.write_text("\n"),
    "a link": replace_by_a_link,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_password_that_others_may_know_is_replaced(tmp_path, damage):
    first = password.password(tmp_path)
    file = tmp_path / password.FILE
    damage(file)
    assert password.password(tmp_path) != first
    assert not file.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600


def test_hash_is_bcrypt_with_a_new_salt():
    first, second = password.bcrypt_hash("secret"), password.bcrypt_hash("secret")
    assert first.startswith("$2b$04$")
    assert len(first) == 60
    assert first != second


def test_alertmanager_refuses_requests_without_the_password(tmp_path):
    secret = password.password(tmp_path)
    port = unused_port()
    (tmp_path / "alertmanager.yml").write_text(alertmanager_yaml(None))
    (tmp_path / "web.yml").write_text(alertmanager_web_yaml(password.bcrypt_hash(secret)))
    process = subprocess.Popen(
        [find_program("prometheus-alertmanager", "alertmanager"), f"--config.file={tmp_path / 'alertmanager.yml'}",
         f"--web.config.file={tmp_path / 'web.yml'}", f"--storage.path={tmp_path}", "--cluster.listen-address=",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"], stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def status(auth=None, path="/-/ready"):
        try:
            return requests.get(f"http://127.0.0.1:{port}{path}", auth=auth, timeout=5).status_code
        except requests.ConnectionError:
            return None

    try:
        assert eventually(lambda: status((password.USER, secret)) == 200, 20)
        assert status((password.USER, "guess")) == 401
        assert [status(path=path) for path in ("/-/ready", "/api/v2/silences", "/", "/metrics")] == [401] * 4
    finally:
        process.kill()
        process.wait()


def test_only_pages_of_the_dashboard_may_ask_prometheus():
    origins = allowed_origins("http://127.0.0.1:8501")
    for origin in ("http://127.0.0.1:8501", "http://localhost:8501"):
        assert re.fullmatch(origins, origin)
    for origin in ("http://127.0.0.1:85010", "http://127a0.0.1:8501", "https://evil.example"):
        assert not re.fullmatch(origins, origin)
