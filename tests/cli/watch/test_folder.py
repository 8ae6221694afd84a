"""Tests of the folder that watch leaves: its name, and that nothing in it is overwritten."""

from dataclasses import replace

import pytest

from tests.cli.render.build import CRASH, DONE, JOB, UNSEEN, with_job
from zmon.cli.render.time_advice import Advice
from zmon.cli.watch.folder import new_folder, page
from zmon.cli.watch.outcome import reason_unwatched


@pytest.mark.parametrize(
    ("job", "names"), [(JOB, ["zmon-job-1", "zmon-job-1-2"]), (UNSEEN, ["zmon-job-1-node-a", "zmon-job-1-node-a-2"])]
)
def test_new_folder_of_a_job_gets_a_number_if_its_name_is_taken(tmp_path, job, names):
    assert [new_folder(tmp_path, job, "node-a").name for _ in names] == names


def test_report_is_one_page_with_the_card_and_the_incidents():
    card = replace(with_job(findings=(CRASH,)), command="<b>")
    text = page(card, card.jobs[0], (), ["<html><body><h1>incident</h1></body></html>"])
    assert "<h1>incident</h1>" in text
    assert text.count("<body>") == 1
    assert "cost most forward" in text
    assert "rank 1 raised ValueError" in text
    for outside in ("src=", "href=", "<script"):
        assert outside not in text


def test_report_without_a_job_escapes_the_command():
    card = replace(DONE, jobs=(), unwatched=Advice("none", ""), command="<b>")
    text = page(card, None, (), ())
    assert "<b>" not in text
    assert "&lt;b&gt;" in text


REASONS = {  # command, environment → why nothing was seen
    "switched off": (["python", "x.py"], {"ZMON_DISABLED": "1"}, "ZMON_DISABLED switches zmon off"),
    "isolated": (["/opt/python3.11", "-I", "x.py"], {}, "python3.11 -I ignores PYTHONPATH"),
    "isolated with others": (["python", "-u", "-sE", "-m", "x"], {}, "python -E ignores PYTHONPATH"),
    "option of the script": (["python", "x.py", "-I"], {}, "none of its processes began to train"),
    "another program": (["grep", "-I", "x"], {"ZMON_DISABLED": "0"}, "none of its processes began to train"),
    "long option": (["python", "--SIE"], {}, "none of its processes began to train"),
}


@pytest.mark.parametrize(("command", "env", "reason"), REASONS.values(), ids=REASONS)
def test_card_has_the_reason_why_nothing_was_watched(command, env, reason):
    assert reason_unwatched(command, env).what.startswith(reason)
