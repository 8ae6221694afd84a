"""Tests of what `zmon incident` prints: all parts of an incident, harmless and in short form."""

from tests.build import finding, rank_state, snapshot
from tests.cli.render.build import text_of
from tests.hub.incidents.build import EVIDENCE, made
from zmon.cli.render.incident import incident


def printed(report, *about, **changes):
    """Return what a terminal of 80 columns shows of an incident whose report is there."""
    capsule, _ = made(*about, **changes)
    return text_of(incident(capsule, report), width=80)


def test_incident_has_culprit_timeline_stack_and_path():
    text = printed("/data/incidents/f1/report.html")
    for part in ("CRITICAL rank_frozen: rank 2 on node-a", "kill -CONT", "+0.0 s  first sign",
                 "▶  2     node-a  stopped", "all_to_all #301", "guilty_line", "last line",
                 "full report: /data/incidents/f1/report.html"):  # fmt: skip
        assert part in text
    assert max(map(len, text.splitlines())) <= 80


def test_messages_of_a_job_cannot_change_the_screen():
    evil = "\x1b]0;title\x07\x1b[2J[bold red]gone[/]\x07\u202e"
    stderr = {"2": {"text": evil, "error": None, "path": evil, "shared": True}}
    evidence = {**EVIDENCE, "stderr_tail": stderr, "stacks": {"2": {"stack": evil}}}
    evil_finding = finding(evidence=evidence, summary=evil, detail=evil, job_id=evil, hosts=(evil,))
    text = printed("x", evil_finding, left_out=(evil,))
    assert "[bold red]gone[/]" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_long_stderr_and_many_ranks_are_shortened():
    stderr = {"2": {"text": "\n".join(map(str, range(100))), "error": None, "path": None, "shared": False}}
    job = snapshot(*(rank_state(rank, world_size=100) for rank in range(100)))
    text = printed("x", finding(evidence={"stderr_tail": stderr}), job)
    assert "… 80 more lines\n80\n" in text
    assert "and 84 more in capsule.json" in text
