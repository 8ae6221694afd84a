"""Tests of the clients of Prometheus and the hub.

Answers and failures are cached. An answer of another server or version raises Unreachable. Credentials in a URL are
in no message and in no link.
"""

import time

import pytest

from dashboards.address import REFRESH_SECONDS, Span
from dashboards.http_requests import Unreachable, without_credentials
from dashboards.queries import Hub, Prometheus, quoted
from tests.decoding_threads import decode_in_threads
from tests.http_server import FakeServer
from zmon.schema.api import JobList, RanksRequest

NOWHERE = "http://me:secret@127.0.0.1:9"


@pytest.fixture
def server():
    """Start a server, and yield its URL, its requests, and its answer, which a test can change."""
    requests = []
    body = {"status": "success", "data": {"result": []}}

    def answer(path, query):
        requests.append((path, query))
        return body

    fake = FakeServer(answer)
    yield fake.url, requests, body
    fake.close()


def test_credentials_of_url_are_in_no_error_and_no_link():
    for ask in (
        lambda: Prometheus(NOWHERE).query("up"),
        lambda: Hub(NOWHERE).jobs(),
        lambda: Hub(NOWHERE).report("f1"),
    ):
        with pytest.raises(Unreachable) as failed:
            ask()
        assert "secret" not in str(failed.value)
        assert "127.0.0.1:9" in str(failed.value)
    assert "secret" not in Prometheus(NOWHERE).link("up", Span(0, 60, 2), is_now=False)


@pytest.mark.parametrize(
    ("label", "promql"), [('a"} or up{b="\\', r'"a\"} or up{b=\"\\"'), ("\N{GRINNING FACE}", '"\N{GRINNING FACE}"')]
)
def test_quoted_label_value_cannot_end_its_quotes_and_keeps_unusual_characters(label, promql):
    assert quoted(label) == promql


def test_repeated_query_is_sent_once(server):
    url, requests, _ = server
    for _ in range(5):
        assert Prometheus(url).query("up") == []
        assert Prometheus(url).query_range("up", "{job}", Span(0, 60, 2)).table.empty
    assert [path.rpartition("/")[2] for path, _ in requests] == ["query", "query_range"]


def test_range_query_of_next_span_is_sent_again(server):
    url, requests, _ = server
    for end in (60, 62):
        Prometheus(url).query_range("up", "{job}", Span(end - 60, end, 2))
    assert len(requests) == 2


def test_failure_of_query_is_cached_for_one_refresh(server):
    url, requests, body = server
    body["data"] = "nothing"
    asks = (
        lambda: Prometheus(url).query("up"),
        lambda: Prometheus(url).query_at("up", 60),
        lambda: Prometheus(url).query_range("up", "{job}", Span(0, 60, 2)),
    )
    for ask in asks * 5:
        with pytest.raises(Unreachable, match="is not Prometheus"):
            ask()
    assert len(requests) == len(asks)
    body["data"] = {"result": []}
    time.sleep(REFRESH_SECONDS + 0.1)
    for ask in asks:
        ask()


@pytest.mark.parametrize("url", ["http://me:p@ss@h:9", "http://me:a/b@h:9", "http://me:s3cret@h:9/prometheus"])
def test_credentials_are_removed_from_text_with_url(url):
    assert without_credentials(f"cannot reach {url}/api").startswith("cannot reach http://h:9")


def test_link_to_prometheus_has_end_time_in_its_format():
    link = Prometheus("http://p").link("up", Span(0, 1_795_226_475, 2), is_now=False)
    assert "g0.end_input=2026-11-21+02%3A01%3A15" in link


def test_link_to_prometheus_without_moment_is_constant():
    links = {Prometheus("http://p").link("up", Span(end - 60, end, 2), is_now=True) for end in (1000, 1002)}
    assert len(links) == 1


@pytest.mark.parametrize(
    ("flags", "begins"),
    [
        ({"web.external-url": "https://prom.example.com/x/"}, "https://prom.example.com/x/graph?"),
        ({"web.external-url": "https://me:secret@prom.example.com"}, "https://prom.example.com/graph?"),
        ({"web.external-url": ""}, "{url}/graph?"),
        ({"web.external-url": "javascript:alert(1)"}, "{url}/graph?"),
        ({}, "{url}/graph?"),
        ([], "{url}/graph?"),
    ],
)
def test_link_to_prometheus_has_its_external_url_if_valid(server, flags, begins):
    url, requests, body = server
    body["data"] = flags
    for _ in range(5):
        link = Prometheus(url).link("up", Span(0, 60, 2), is_now=True)
    assert link.startswith(begins.format(url=url))
    assert [path for path, _ in requests] == ["/api/v1/status/flags"]


def test_hub_with_another_schema_version_is_rejected(server):
    url, _, body = server
    body |= {"schema": 2, "jobs": [], "blind": False}
    with pytest.raises(Unreachable, match="no hub of this version"):
        Hub(url).jobs()


@pytest.mark.parametrize("body", [b"[]", b"{}", b'"jobs"', b'{"schema": 1, "blind": false, "jobs": [{"job_id": 7}]}'])
def test_hub_answer_of_another_shape_is_rejected(body):
    fake = FakeServer(lambda path, query: body)
    with pytest.raises(Unreachable, match="no hub of this version"):
        Hub(fake.url).jobs()
    fake.close()


def test_unknown_field_of_hub_answer_is_ignored(server):
    url, _, body = server
    body |= {"schema": 1, "blind": True, "jobs": [], "agents": 3}
    assert Hub(url).jobs() == JobList([], blind=True)


def test_answer_and_failure_of_hub_are_cached(server):
    url, requests, body = server
    body |= {"schema": 1, "blind": False, "jobs": []}
    assert Hub(url).jobs() is Hub(url).jobs()
    for _ in range(3):
        with pytest.raises(Unreachable, match="no hub of this version"):
            Hub(url).incidents()
    assert [path for path, _ in requests] == ["/api/v1/jobs", "/api/v1/incidents"]


def test_job_id_from_address_bar_stays_within_its_path(server):
    url, requests, body = server
    summary = {"num_ranks": 0, "num_standing_out": 0, "num_missing": 0, "missing": [], "by_state": {}}
    body |= {"schema": 1, "job_id": "../../metrics", "ranks": [], "num_rows": 0, "summary": summary}
    Hub(url).ranks(RanksRequest("../../metrics"))
    assert requests[0][0] == "/api/v1/jobs/..%2F..%2Fmetrics/ranks"


TWO_ANSWERS = """
import msgspec
from dashboards import http_requests
from zmon.schema.api import FindingList, JobList

bodies = [(msgspec.json.encode(JobList([], False)), JobList), (msgspec.json.encode(FindingList([])), FindingList)]
"""


def test_first_answers_can_be_decoded_by_threads_at_once():
    decode_in_threads(TWO_ANSWERS, "http_requests._decode(*bodies[number % 2])")
