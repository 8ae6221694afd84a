"""Tests of requests that a web page from elsewhere sends through somebody's browser: it can neither read nor change."""

import stat
from pathlib import Path

import pytest
import requests

from zmon.stack import password

ELSEWHERE = {"Origin": "https://evil.example"}
SILENCE = {
    "matchers": [{"name": "alertname", "value": ".+", "isRegex": True}],
    "startsAt": "2030-01-01T00:00:00Z", "endsAt": "2030-01-02T00:00:00Z", "createdBy": "a page", "comment": "",
}  # fmt: skip


def test_silence_needs_the_password_of_alertmanager(stack):
    url = f"{stack.urls['alertmanager']}/api/v2/silences"
    assert requests.post(url, json=SILENCE, headers=ELSEWHERE, timeout=5).status_code == 401
    assert requests.post(url, json=SILENCE, auth=("zmon", "guess"), timeout=5).status_code == 401
    created = requests.post(url, json=SILENCE, auth=stack.login, timeout=5)
    assert created.status_code == 200
    deleted = f"{stack.urls['alertmanager']}/api/v2/silence/{created.json()['silenceID']}"
    assert requests.delete(deleted, auth=stack.login, timeout=5).status_code == 200


def test_password_is_readable_by_its_owner_only(stack):
    for name in (password.FILE, "alertmanager-web.yml"):
        status = (Path(stack.env["ZMON_DATA_DIR"]) / name).stat()
        assert stat.S_IMODE(status.st_mode) == 0o600


def test_page_from_elsewhere_cannot_read_prometheus(stack):
    url = f"{stack.urls['prometheus']}/api/v1/query?query=up"
    assert "Access-Control-Allow-Origin" not in requests.get(url, headers=ELSEWHERE, timeout=5).headers
    dashboard = {"Origin": stack.urls["dashboard"]}
    assert requests.get(url, headers=dashboard, timeout=5).headers["Access-Control-Allow-Origin"] == dashboard["Origin"]


@pytest.mark.parametrize("part", ["agent", "hub"])
def test_page_from_elsewhere_gets_no_answer_of_our_servers(stack, part):
    url = f"{stack.urls[part]}/metrics"
    assert requests.get(url, headers=ELSEWHERE, timeout=5).status_code == 403
    assert requests.get(url, headers={"Host": "evil.example"}, timeout=5).status_code == 403
    assert requests.get(url, timeout=5).headers["X-Content-Type-Options"] == "nosniff"
