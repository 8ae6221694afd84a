"""Tests of sending: what arrives at Slack, PagerDuty and a mailbox, and that no text has a part of a URL."""

import logging

import apprise.plugins.pagerduty
import apprise.plugins.slack
import pytest

from tests.notify.endpoints import HttpEndpoint, smtp_endpoint
from zmon.errors import UsageError
from zmon.notify.recipients import Recipient
from zmon.notify.sending import AppriseService, scrubber

SECRET = "Tr0ub4dor"


def send(url, notice):
    """Send a notice to this URL; return the reason if it fails, or an empty text."""
    return AppriseService(Recipient(url=url, name="ann")).send(notice)


def test_json_endpoint_gets_title_body_and_type(endpoint, notice):
    assert send(f"json://127.0.0.1:{endpoint.port}/{SECRET}", notice) == ""
    (received,) = endpoint.received
    assert (received["title"], received["type"]) == ("llm-7 failed after 3 h", "failure")
    assert received["message"].startswith("rank 2 exited: <b>bad</b>")


def test_text_of_a_job_in_slack_mentions_nobody(endpoint, notice, monkeypatch):
    monkeypatch.setattr(apprise.plugins.slack.NotifySlack, "webhook_url", f"http://127.0.0.1:{endpoint.port}")
    assert send("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#on-call", notice) == ""
    (received,) = endpoint.received
    text = str(received)
    assert received["channel"] == "#on-call"
    assert "rank 2 exited" in text
    assert "<!channel>" not in text
    assert "@everyone" not in text


def test_pagerduty_gets_an_event(endpoint, notice, monkeypatch):
    endpoint.answer = lambda: (202, b'{"status": "success"}', {})
    urls = dict.fromkeys(("us", "eu"), f"http://127.0.0.1:{endpoint.port}")
    monkeypatch.setattr(apprise.plugins.pagerduty, "PAGERDUTY_API_LOOKUP", urls)
    assert send(f"pagerduty://{'i' * 32}@{'a' * 20}", notice) == ""
    (received,) = endpoint.received
    assert received["event_action"] == "trigger"
    assert "llm-7 failed after 3 h" in received["payload"]["summary"]


def test_mailbox_gets_a_message(notice):
    with smtp_endpoint() as (port, messages):
        url = f"mailto://127.0.0.1:{port}/?smtp=127.0.0.1&from=zmon@example.org&to=ann@example.org&mode=insecure"
        assert send(url, notice) == ""
    (message,) = messages
    assert "Subject: llm-7 failed after 3 h" in message
    assert "To: ann@example.org" in message


FAILURES = {
    "forbidden": lambda: (403, f"no token {SECRET}".encode(), {}),
    "too many": lambda: (429, b"slow down", {"Retry-After": "30"}),
    "broken": lambda: (500, b"", {}),
    "redirect": lambda: (302, b"", {"Location": f"http://127.0.0.1:9/{SECRET}"}),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_has_a_reason_without_a_part_of_the_url(endpoint, notice, failure, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    endpoint.answer = FAILURES[failure]
    reason = send(f"json://user:{SECRET}@127.0.0.1:{endpoint.port}/{SECRET}-path?token={SECRET}", notice)
    status = str(FAILURES[failure]()[0])
    assert status in reason
    assert len(endpoint.received) == 1  # a redirect is not followed
    # apprise's own lines are not passed on.
    for text in (reason, *(record.getMessage() for record in caplog.records if record.name.startswith("zmon"))):
        assert SECRET not in text
    out, err = capfd.readouterr()
    assert SECRET not in out + err


def test_endpoint_that_is_gone_has_a_reason_without_a_part_of_the_url(notice):
    gone = HttpEndpoint()
    gone.close()
    reason = send(f"json://user:{SECRET}@127.0.0.1:{gone.port}/{SECRET}", notice)
    assert reason
    assert SECRET not in reason


UNKNOWN_URLS = (
    *(f"{scheme}{SECRET}" for scheme in ("nosuch://", "slack://", "file:///", "config://")),
    f"json://[{SECRET}/x",  # no address of IPv6
    f"slack://{SECRET}\u2100",  # the error of urllib repeats the host
)


@pytest.mark.parametrize("url", UNKNOWN_URLS)
def test_url_that_apprise_does_not_know_is_refused_in_one_line(url):
    with pytest.raises(UsageError, match=r"cannot send notices to ann: apprise does not know this \w+:// URL") as error:
        AppriseService(Recipient(url=url, name="ann"))
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("url", "text", "scrubbed"),
    [
        ("slack://T1JJ3/A1BRT/TIiajk", "POST /services/T1JJ3/A1BRT/TIiajk failed", "POST /services/*** failed"),
        ("json://ann:p%40ss@host.example/x?key=v4lue", "p@ss p%40ss v4lue", "*** *** ***"),
        ("json://host.example/secret", "host.example refused", "host.example refused"),
    ],
)
def test_scrubber_hides_secrets_only(url, text, scrubbed):
    assert scrubber(url)(text) == scrubbed


def test_scrubber_escapes_control_characters():
    assert scrubber("mailto://ann:pass@example.org")("bad\x1b[31m word") == "bad\\x1b[31m word"
