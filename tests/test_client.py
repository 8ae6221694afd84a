"""Tests of the client for other programs, against a hub over HTTP, and of the example in docs/http.md."""

import asyncio
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from aiohttp.test_utils import unused_port

import zmon.client
from tests.build import JOB
from tests.golden.hub_scene import hub as full_hub
from tests.http_server import FakeServer
from tests.hub.serving import serving
from tests.metrics.scene import JOB_VIEW
from tests.places import REPOSITORY
from zmon.client import AsyncHub, Hub
from zmon.errors import NotServed, Unreachable, UsageError
from zmon.schema.http_config import HttpConfig

CALLS = ["ends", "findings", "incident", "incidents", "intents", "jobs", "plan", "ranks"]
SECRET = "s3cret"


@pytest.fixture
def url(tmp_path):
    """The URL of a hub that has jobs and incidents."""
    with serving(full_hub(tmp_path)) as address:
        yield address


def requests_of(work):
    """Return the path and query of each request that a function sends to a hub, given its URL."""
    requests = []
    server = FakeServer(lambda path, query: requests.append((path, query)) or {"jobs": [], "blind": True})
    try:
        work(server.url)
    finally:
        server.close()
    return requests


def test_both_clients_have_the_same_calls():
    for kind in (Hub, AsyncHub):
        assert sorted(name for name in vars(kind) if not name.startswith("_")) == CALLS
    assert zmon.client.__all__ == ["AsyncHub", "Hub"]


def test_answers_are_of_the_types_of_the_schema(url):
    hub = Hub(f"{url}/")
    assert hub.url == url
    jobs, ranks, plan = hub.jobs(), hub.ranks(JOB, 1, order="urgency"), hub.plan(JOB)
    assert not jobs.blind
    assert [job.job_id for job in jobs.jobs] == [JOB, "fresh", "stuck"]
    assert (len(ranks.ranks), ranks.num_rows, len(plan.ranks)) == (1, 4, 4)
    active, every = hub.findings(active=True), hub.findings()
    assert 0 < len(active.findings) < len(every.findings)
    assert {finding.job_id for finding in hub.findings("stuck").findings} == {"stuck"}
    assert [incident.id for incident in hub.incidents().incidents] == ["abc1", "abd2"]
    assert (hub.ends().ends, hub.ends().num_ends) == ([], 0)
    assert hub.incident("abc1").finding.confidence == 0.97


async def test_async_client_gives_the_same_answers_over_one_session(url):
    async with AsyncHub(url) as hub:
        answers = await asyncio.gather(hub.jobs(), hub.incident("abc1"), hub.findings(active=True))
    hub = Hub(url)
    assert answers == [hub.jobs(), hub.incident("abc1"), hub.findings(active=True)]


async def test_blocking_client_works_where_an_event_loop_runs_as_in_a_notebook():
    requests = requests_of(lambda url: Hub(url).jobs())
    assert requests == [("/api/v1/jobs", {})]


@pytest.mark.parametrize(
    ("call", "kind", "line"),
    [
        (lambda hub: hub.ranks("none"), NotServed, "answered 404: no agent reports a job none"),
        (lambda hub: hub.incident("../x"), NotServed, "answered 404"),
        (lambda hub: hub.ranks(JOB, order="luck"), Unreachable, "answered 400"),
    ],
)
def test_error_is_one_line(url, call, kind, line):
    with pytest.raises(kind, match=line) as raised:
        call(Hub(url))
    assert "\n" not in str(raised.value)


def test_error_without_hub_names_the_url():
    with pytest.raises(Unreachable, match=r"^cannot reach http://127.0.0.1:\d+/api/v1/jobs: Connection refused$"):
        Hub(f"http://127.0.0.1:{unused_port()}").jobs()


@pytest.mark.parametrize("url", ["nowhere", "http://[", "http://ann@["])
def test_invalid_url_is_an_error_of_the_request(url):
    with pytest.raises(Unreachable, match="cannot reach"):
        Hub(url).jobs()


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://hub.example.org", {"token": SECRET}),
        (f"http://ann:{SECRET}@hub.example.org", {}),
        (f"http://ann:{SECRET}@127.0.0.1:1", {}),
        ("http://127.0.0.1:1", {"token": SECRET}),
        ("http://127.0.0.1:1", {"token": f"{SECRET}\nX: 1"}),
    ],
)
def test_secret_is_in_no_error_and_in_no_representation(url, options):
    hub = Hub(url, **options)
    with pytest.raises(Unreachable) as raised:
        hub.jobs()
    assert SECRET not in f"{raised.value} {raised.value!r} {hub!r} {hub.url}"


def test_token_and_password_are_the_credentials_and_not_in_the_url():
    with_token, with_password = Hub("http://h", token=SECRET), Hub("http://ann:p%40ss@h:1/x")
    assert with_token._http.authorization.credentials == SECRET
    assert (with_password.url, with_password._http.basic_auth.password) == ("http://h:1/x", "p@ss")


def test_file_of_http_config_is_read_as_the_commands_read_it(tmp_path):
    file = tmp_path / "http.yaml"
    file.write_text(f"hub: {{authorization: {{credentials: {SECRET}}}}}\n")
    assert Hub("http://h", http=file)._http == Hub("http://h", token=SECRET)._http
    tls = Hub("https://h", ca="ca.pem", token=SECRET)._http
    assert (str(tls.tls_config.ca_file), tls.authorization.credentials) == ("ca.pem", SECRET)
    file.write_text("agents: {authorization: {credentials: x}}\n")
    assert Hub("http://h", http=str(file))._http == HttpConfig()


def test_file_beside_a_token_and_a_missing_authority_are_refused(tmp_path):
    with pytest.raises(UsageError, match="has both http and token or ca"):
        Hub("http://h", http=HttpConfig(), token=SECRET)
    with pytest.raises(UsageError, match=str(tmp_path / "none")):
        Hub("https://127.0.0.1:1", ca=tmp_path / "none").jobs()


def test_example_of_the_page_prints_findings_and_incidents_of_a_hub(url):
    page = (REPOSITORY / "docs/http.md").read_text()
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "zmon.client" in block)
    program = [sys.executable, "-c", code.replace("http://127.0.0.1:9781", url)]
    printed = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "stuck: STALLED" in printed
    assert "critical rank_frozen of job stuck, ranks [2], confidence 97%" in printed
    assert "abc1: critical rank_frozen of job job" in printed


def test_answer_of_a_newer_hub_is_read():
    """Unknown keys are ignored, and so are unknown words."""
    answer = {"schema": 1, "blind": False, "news": 1, "jobs": [replace(JOB_VIEW, state="dreaming")]}
    server = FakeServer(lambda path, _: answer)
    try:
        assert [job.state for job in Hub(server.url).jobs().jobs] == ["dreaming"]
    finally:
        server.close()
