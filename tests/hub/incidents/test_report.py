"""Tests of the page of an incident: complete, self-contained, and safe against markup in a job's messages."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import msgspec

from tests.build import NOW, finding, rank_state, snapshot, words
from tests.hub.incidents.build import EVIDENCE, made, stalled
from zmon.hub.incidents import steps
from zmon.hub.incidents.moments import HostClock
from zmon.hub.incidents.report import report
from zmon.schema.gathered import PendingRow

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
EVIL_PENDING = msgspec.to_builtins(
    PendingRow(
        group=EVIL, sequence=1, op=EVIL, num_bytes=None, sizes=(), dtypes=(), age_seconds=None, state="started"
    )
)  # fmt: skip


def page(capsule, rows):
    """Return the HTML of a report."""
    return report(capsule, steps.read(rows))


class Tags(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text += data


def test_page_has_culprit_cause_time_and_next_step():
    text = Tags(page(*made())).text
    for part in ("rank_frozen", "rank 2 on node-a", "kill -CONT", "first sign at step 100", "guilty_line",
                 "last line", "all_to_all #301", "▶ 2"):  # fmt: skip
        assert part in text


def test_stack_of_a_process_that_has_ended_is_marked():
    headings = [
        Tags(page(*made(finding(evidence={"stacks": {"2": {"stack": "in guilty_line", "alive": alive}}})))).text
        for alive in (True, False)
    ]
    assert ["Rank 2 before it ended" in heading for heading in headings] == [False, True]


def test_page_needs_no_network_and_no_script():
    tags = Tags(page(*made()))
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(tags.names)
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name in ("src", "href")]
    assert "url(" not in page(*made())
    assert ("http-equiv", "Content-Security-Policy") in tags.attributes


def job_with_run_page(url):
    """Return the stalled job with this label `run_page`."""
    job = stalled()
    return replace(job, ranks=tuple(replace(rank, labels={"run_page": url}) for rank in job.ranks))


def test_page_links_to_the_page_of_the_run_and_to_nothing_else():
    url = "https://wandb.ai/ann/ads/runs/1jx1ud12"
    tags = Tags(page(*made(job=job_with_run_page(url))))
    assert tags.names.count("a") == 1
    assert {("href", url), ("rel", "noopener noreferrer")} <= set(tags.attributes)
    for hostile in ("javascript:alert(1)", EVIL, "https://ann:secret@wandb.ai/"):
        assert page(*made(job=job_with_run_page(hostile))) == page(*made())


def test_messages_of_a_job_are_escaped():
    evidence = {
        "stacks": {"2": {"stack": EVIL, "wchan": EVIL}, "3": {"stack": None, "stack_error": EVIL}},
        "stderr_tail": {"2": {"text": EVIL, "error": None, "path": EVIL, "shared": False}},
        "in_flight": {"0": {"pending": [EVIL_PENDING], "num_pending": 1, "last": {}}},
    }
    finding_ = finding(summary=EVIL, detail=EVIL, job_id=EVIL, hosts=(EVIL,), runbook=EVIL, evidence=evidence)
    job = stalled()
    dead = rank_state(2, host=EVIL, alive=False, last_words=words("exception", EVIL, EVIL), exit_status=EVIL)
    job = replace(job, ranks=(*(r for r in job.ranks if r.rank != 2), dead))
    capsule, rows = made(finding_, job, left_out=(EVIL,), versions={EVIL: EVIL})
    capsule = replace(capsule, timeline=(HostClock(EVIL, 9.0).moment(NOW, EVIL, EVIL),))
    harmless = set(Tags(page(*made())).names)
    tags = Tags(page(capsule, rows))
    assert set(tags.names) <= harmless | {"code"}
    assert "script" not in tags.names
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in tags.text


def test_control_characters_of_a_job_are_removed():
    output = "\x1b[31mred\x1b[0m\x00\r\n10%\r20%\n"
    tail = {"2": {"text": output, "error": None, "path": None, "shared": False}}
    text = Tags(page(*made(finding(evidence={**EVIDENCE, "stderr_tail": tail})))).text
    assert "red\n20%" in text
    assert "\x1b" not in text


def test_page_shows_whether_the_incident_is_resolved():
    for resolved in (None, NOW + 60):
        text = Tags(page(*made(finding(resolved=resolved, evidence=EVIDENCE)))).text
        assert ("not resolved as of" in text) == (resolved is None)


def test_page_shows_that_several_ranks_share_a_file_of_stderr():
    shared = {"2": {"text": "x", "error": None, "path": "/logs/err", "shared": True}}
    assert "several ranks write to this file" in page(*made(finding(evidence={"stderr_tail": shared})))


def test_page_of_an_incident_without_data_is_complete():
    capsule, _ = made(finding(evidence={}, ranks=(), hosts=()), snapshot(rank_state(0)), stepped=(), hosts=())
    text = Tags(page(capsule, b"")).text
    assert "no culprit" in text
    assert "No steps are known" in text


def test_heat_map_has_a_level_for_each_known_cell():
    capsule, rows = made()
    known = [step for step in steps.read(rows) if (step.rank, step.step) != (0, 2)]
    drawn = re.search(r'class="heat".*?</svg>', report(capsule, known), re.S)[0]
    by_strength = re.findall(r'd="([^"]*)" fill-opacity="([^"]*)"', drawn)
    # The runs of equal cells by their level: column of the first cell, row, and number of cells.
    rows_of = {float(strength): re.findall(r"M(\d) (\d)h(\d)", d) for d, strength in by_strength}
    assert rows_of[0.8] == [("0", "0", "3")]  # the culprit is the first row, three steps in one run
    assert rows_of[0.14] == [("0", "1", "1"), ("2", "1", "1"), ("0", "2", "3"), ("0", "3", "3")]
    known[0] = replace(known[0], duration=60.0)
    assert "the longest took 1 min" in Tags(report(capsule, known)).text
