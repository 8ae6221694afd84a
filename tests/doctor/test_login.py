"""Tests of the login of doctor. The password goes to one Alertmanager only, and a missing one is not an error."""

from zmon.doctor import Login
from zmon.web.client import basic_auth


def test_password_goes_to_its_alertmanager_only(tmp_path):
    (tmp_path / "password").write_text("secret\n")
    login = Login("http://127.0.0.1:9093", "zmon", tmp_path / "password")
    assert login.headers("http://127.0.0.1:9093/") == basic_auth("zmon", "secret")
    assert login.headers("http://evil.example:9093") == {}
    assert login.headers("http://127.0.0.1:9094") == {}


def test_missing_password_is_not_an_error(tmp_path):
    assert Login("http://127.0.0.1:9093", "zmon", tmp_path / "none").headers("http://127.0.0.1:9093") == {}
