"""Tests of the notifier over HTTP: each notice arrives once, also at a service that fails for a while."""

import threading

import pytest

from tests.boxes import eventually
from tests.build import JOB, NOW, finding, killed, snapshot
from tests.notify.endpoints import HttpEndpoint
from zmon.job.outcome import ended_launch
from zmon.notify import FILE, Notifier, Recipient, notifier, outbox

FINDING = finding(severity="critical", detected=NOW - 60.0)
END = ended_launch(snapshot(*(killed(rank, 9.0) for rank in range(4))), fault=FINDING, view=None)
END_TITLE = f"{JOB} failed after 0 ms"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Let a notifier try again after 50 ms, and look for notices as often."""
    monkeypatch.setattr(outbox, "_FIRST_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(notifier, "_POLL_SECONDS", 0.05)


@pytest.fixture
def start(endpoint, tmp_path):
    """Return a function that starts a notifier whose only recipient is the endpoint."""
    started = []

    def notifier(**wishes):
        recipient = Recipient(url=f"json://127.0.0.1:{endpoint.port}/s3cr3t", name="ann", **wishes)
        started.append(Notifier([recipient], tmp_path / FILE))
        return started[-1]

    yield notifier
    for running in started:
        running.close()


def make_pass(notifier, findings=(), ends=(), over=()):
    """Let the notifier see a pass of the hub with these open findings, new ends, and jobs that are over."""
    notifier.update(findings, {}, over, ends, NOW)


def has_counts(notifier, **expected):
    """Return True once the notifier has these counts, and no others."""
    wanted = {("ann", result): number for result, number in expected.items()}
    return eventually(lambda: notifier.counts == wanted, 10.0)


def test_each_notice_arrives_once_and_in_order(start, endpoint):
    notifier = start()
    for _ in range(3):
        make_pass(notifier, findings=[FINDING])
    make_pass(notifier, ends=[END], over={JOB})
    make_pass(notifier, over={JOB})
    assert has_counts(notifier, sent=2)
    assert [message["title"] for message in endpoint.received] == [f"CRITICAL {FINDING.cause}, job {JOB}", END_TITLE]


def test_service_that_fails_for_a_while_gets_each_notice_once(start, endpoint):
    answers = iter([(500, b"", {}), (429, b"", {}), (200, b"ok", {})])
    endpoint.answer = lambda: next(answers)
    notifier = start()
    make_pass(notifier, ends=[END])
    assert has_counts(notifier, failed=2, sent=1)
    assert len(endpoint.received) == 3
    assert notifier.unsent == {}


def unsent_of(notifier):
    """Wait until a notice could not be sent; return the reasons by recipient."""
    assert eventually(lambda: notifier.unsent, 10.0)
    return notifier.unsent


def test_restart_sends_only_unsent_notices(start, endpoint):
    endpoint.answer = lambda: (503, b"", {})
    first = start()
    make_pass(first, findings=[FINDING])
    assert unsent_of(first)
    first.close()
    endpoint.answer = lambda: (200, b"ok", {})
    second = start()
    make_pass(second, findings=[FINDING])
    assert has_counts(second, sent=1)
    number = len(endpoint.received)
    second.close()
    third = start()
    make_pass(third, findings=[FINDING])
    third.close(0.2)
    assert len(endpoint.received) == number


def test_notices_of_a_recipient_that_is_gone_are_dropped(start, endpoint, tmp_path, caplog):
    endpoint.answer = lambda: (503, b"", {})
    first = start()
    make_pass(first, ends=[END])
    assert unsent_of(first)
    first.close()
    Notifier([], tmp_path / FILE).close()
    assert "the file of recipients no longer has it" in caplog.text


def test_slow_recipient_delays_no_other(endpoint):
    slow = HttpEndpoint()
    is_over = threading.Event()

    def answer_late():
        is_over.wait(10.0)
        return 503, b"", {}

    slow.answer = answer_late
    endpoint.answer = lambda: (404, b"", {})
    urls = {"slow": slow.port, "ann": endpoint.port}
    notifier = Notifier([Recipient(url=f"json://127.0.0.1:{port}/", name=name) for name, port in urls.items()])
    make_pass(notifier, ends=[END])
    slow.wait(1)
    assert "404" in unsent_of(notifier)["ann"], "it was asked while the slow one had not answered"
    assert notifier.unsent.keys() == {"ann"}
    is_over.set()
    assert eventually(lambda: "503" in notifier.unsent.get("slow", ""))
    assert "404" not in notifier.unsent["slow"]
    notifier.close()
    slow.close()


def test_close_waits_for_what_is_not_sent_yet(start, endpoint):
    notifier = start()
    make_pass(notifier, ends=[END])
    notifier.close(10.0)
    assert len(endpoint.received) == 1
