"""What does an answer become: numbers, or one line on what is wrong?"""

import time

import pytest

from dashboards.address import REFRESH_SECONDS, Span
from dashboards.asking import Unreachable, without_credentials
from dashboards.queries import Hub, Prometheus, quoted
from tests.dashboards.world import Fake
from zmon.schema.api import JobList

NOWHERE = "http://me:secret@127.0.0.1:9"


@pytest.fixture
def answering():
    """A server that says what a test wants, and how often it was asked."""
    asked = []
    said = {"status": "success", "data": {"result": []}}

    def answer(path, query):
        asked.append((path, query))
        return said

    fake = Fake(answer)
    yield fake.url, asked, said
    fake.close()


def test_credentials_in_a_url_do_not_reach_the_page():
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


def test_a_label_value_cannot_end_its_quotes():
    assert quoted('a"} or up{b="\\') == r'"a\"} or up{b=\"\\"'


def test_a_question_is_asked_once_however_many_want_to_know(answering):
    url, asked, _ = answering
    for _ in range(5):
        assert Prometheus(url).query("up") == []
        assert Prometheus(url).query_range("up", "{job}", Span(0, 60, 2)).table.empty
    assert [path.rpartition("/")[2] for path, _ in asked] == ["query", "query_range"]


def test_the_next_moment_is_another_question(answering):
    url, asked, _ = answering
    for end in (60, 62):
        Prometheus(url).query_range("up", "{job}", Span(end - 60, end, 2))
    assert len(asked) == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda url: Prometheus(url).query("up"),
        lambda url: Prometheus(url).query_at("up", 60),
        lambda url: Prometheus(url).query_range("up", "{job}", Span(0, 60, 2)),
    ],
    ids=["now", "then", "over"],
)
def test_that_nobody_answered_is_shared_for_a_moment_and_no_longer(answering, ask):
    url, asked, said = answering
    said["data"] = "nothing"
    for _ in range(5):
        with pytest.raises(Unreachable, match="is not Prometheus"):
            ask(url)
    assert len(asked) == 1
    said["data"] = {"result": []}
    time.sleep(REFRESH_SECONDS + 0.1)
    ask(url)


@pytest.mark.parametrize("url", ["http://me:p@ss@h:9", "http://me:a/b@h:9", "http://me:s3cret@h:9/prometheus"])
def test_whatever_is_in_a_password_it_is_not_without_credentials(url):
    assert without_credentials(f"cannot reach {url}/api").startswith("cannot reach http://h:9")


def test_a_character_beyond_the_usual_is_still_promql():
    assert quoted("\N{GRINNING FACE}") == '"\N{GRINNING FACE}"'


def test_a_link_into_prometheus_names_the_moment_as_prometheus_reads_it():
    link = Prometheus("http://p").link("up", Span(0, 1_795_226_475, 2), is_now=False)
    assert "g0.end_input=2026-11-21+02%3A01%3A15" in link


def test_a_link_to_now_stays_the_same_however_late_it_gets():
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
def test_a_link_leads_where_a_browser_finds_prometheus(answering, flags, begins):
    url, asked, said = answering
    said["data"] = flags
    for _ in range(5):
        link = Prometheus(url).link("up", Span(0, 60, 2), is_now=True)
    assert link.startswith(begins.format(url=url))
    assert [path for path, _ in asked] == ["/api/v1/status/flags"]


def test_a_hub_of_another_version_is_no_hub(answering):
    url, _, said = answering
    said |= {"schema": 2, "jobs": [], "blind": False}
    with pytest.raises(Unreachable, match="no hub of this version"):
        Hub(url).jobs()


@pytest.mark.parametrize("body", [b"[]", b"{}", b'"jobs"', b'{"schema": 1, "blind": false, "jobs": [{"job_id": 7}]}'])
def test_json_of_another_shape_is_no_hub(body):
    fake = Fake(lambda path, query: body)
    with pytest.raises(Unreachable, match="no hub of this version"):
        Hub(fake.url).jobs()
    fake.close()


def test_what_a_newer_hub_adds_is_passed_over(answering):
    url, _, said = answering
    said |= {"schema": 1, "blind": True, "jobs": [], "agents": 3}
    assert Hub(url).jobs() == JobList([], blind=True)


def test_an_answer_of_the_hub_is_shared_and_so_is_that_there_is_none(answering):
    url, asked, said = answering
    said |= {"schema": 1, "blind": False, "jobs": []}
    assert Hub(url).jobs() is Hub(url).jobs()
    for _ in range(3):
        with pytest.raises(Unreachable, match="no hub of this version"):
            Hub(url).incidents()
    assert [path for path, _ in asked] == ["/api/v1/jobs", "/api/v1/incidents"]


def test_an_id_from_the_address_bar_stays_within_its_path(answering):
    url, asked, said = answering
    said |= {"schema": 1, "job_id": "../../metrics", "ranks": []}
    Hub(url).ranks("../../metrics")
    assert asked[0][0] == "/api/v1/jobs/..%2F..%2Fmetrics/ranks"
