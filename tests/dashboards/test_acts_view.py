"""Tests of the line about the last act of zmon, on the page Job."""

import pytest

from tests.dashboards.recorded import NOW
from tests.dashboards.world import page_text
from tests.hub.acts.builds import intent

DONE = {"job_id": "ads", "time": NOW - 60, "result": "acted", "outcome": "steps_again"}


def line(page):
    return page.partition('data-testid="zmon-act">')[2].partition("</p>")[0]


def test_job_page_says_what_zmon_did_and_why(open_page, world):
    world.intents = [
        intent(**{**DONE, "id": "other", "job_id": "video", "rule": "other"}),
        intent(id="newer", job_id="ads", time=NOW - 10, rule="newer", mode="observe", result="observed"),
        intent(**DONE, reasons=("override: ann", "node-a: SIGKILL to <b>1002</b>")),
        intent(**{**DONE, "id": "older", "rule": "older"}),
    ]
    text = line(page_text(open_page()))
    assert "<b>zmon: kill culprit of rank 2, steps again</b>" in text
    assert "because of rank_frozen (rule frozen): override: ann; node-a: SIGKILL to &lt;b&gt;1002&lt;/b&gt;" in text
    assert "incident=f1" in text
    assert not [rule for rule in ("other", "newer", "older") if rule in text]


def test_refusal_is_shown_with_its_reason(open_page, world):
    world.intents = [intent(**{**DONE, "result": "refused", "outcome": "", "reasons": ("2 ranks are not watched",)})]
    text = line(page_text(open_page()))
    assert "refused</b>" in text
    assert "2 ranks are not watched" in text


@pytest.mark.parametrize(
    "intents",
    [
        pytest.param([], id="no policy"),
        pytest.param([intent(**{**DONE, "mode": "observe", "result": "observed", "outcome": ""})], id="only observed"),
        pytest.param([intent(**{**DONE, "time": NOW - 90_000})], id="yesterday"),
    ],
)
def test_page_does_not_mention_acts_without_a_recent_one(open_page, world, intents):
    world.intents = intents
    page = page_text(open_page())
    assert (line(page), "Acts of zmon" in page) == ("", False)


def test_acts_are_unknown_if_the_hub_is_older(open_page, world):
    world.intents = None
    assert "Acts of zmon: unknown" in page_text(open_page())
