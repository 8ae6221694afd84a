"""What each panel says of a picture: unknown as unknown, ages as of the moment the hub answered."""

from dataclasses import replace

import pytest

from tests.build import NOW
from tests.cli.top.scene import healthy, job, row, stalled
from zmon.cli.top.picture import (
    Picture,
    Silence,
    job_line,
    job_rows,
    rank_rows,
    shares,
    shortened,
    state_line,
    still_chosen,
)

SILENCE = Silence(NOW - 42, "cannot reach http://hub:9781: Connection refused")


def words(rows):
    return [" ".join(cells) for cells, _ in rows]


def test_silent_hub_is_said_with_since_when_and_how_old_the_picture_is():
    line = state_line("http://hub:9781", healthy(), SILENCE, NOW + 3).plain
    assert line.startswith("HUB SILENT since 07:59:18 UTC, for 45 s: cannot reach")
    assert line.endswith("Below is what it said 3.0 s ago")


def test_hub_that_never_answered_leaves_nothing_known():
    assert state_line("http://hub:9781", None, SILENCE, NOW).plain.endswith("Nothing is known yet")


def test_blind_hub_is_no_news():
    line = state_line("http://hub:9781", replace(healthy(), blind=True), None, NOW).plain
    assert line.startswith("BLIND")
    assert "no findings" not in line


def test_hub_that_answers_is_counted():
    assert "1 job, no findings" in state_line("", healthy(), None, NOW).plain
    assert "1 job, 1 critical" in state_line("", stalled(), None, NOW).plain
    assert "0 jobs" in state_line("", Picture(NOW, False, (), ()), None, NOW).plain


def test_jobs_with_findings_come_first_and_are_marked():
    jobs = (job("a"), job("b"), job("c", findings=("f1",)))
    rows = words(job_rows(Picture(NOW, False, jobs, ()), "b", {}, 80))
    assert [text.split()[0] for text in rows] == ["!c", "a", ">"]


def test_job_of_which_nothing_is_known_says_so():
    (text,) = words(job_rows(Picture(NOW, False, (job(step=None, step_seconds=None, time={}),), ()), None, {}, 80))
    assert text.count("unknown") == 2
    assert text.endswith("no step")


@pytest.mark.parametrize(
    ("time", "before", "expected"),
    [
        ({"forward": 3.0, "data": 1.0}, {}, ["forward 75%", "data 25%"]),
        ({"forward": 3.0, "data": 1.0}, {"forward": 3.0}, ["data 100%"]),
        ({"forward": 3.0}, {"forward": 3.0}, []),
        ({"forward": 1.0}, {"forward": 30.0, "data": 4.0}, ["forward 100%"]),
        ({}, {}, []),
    ],
    ids=["from the start", "since before", "stands still", "began anew", "nothing counted"],
)
def test_time_goes_where_it_grew(time, before, expected):
    assert shares(time, before) == expected


def test_whole_name_of_the_chosen_job_is_said_with_where_its_time_goes():
    line = job_line(healthy(), "dlrm-7", {}).plain
    assert line == "dlrm-7: forward 41%, all_to_all 32%, backward 20%, imbalance 7%"
    assert job_line(healthy(), None, {}).plain == ""


def test_hub_that_does_not_tell_ranks_is_said():
    picture = replace(healthy(), ranks=(), no_ranks="its ranks are not told")
    assert "its ranks are not told" in job_line(picture, "dlrm-7", {}).plain


def test_ranks_to_blame_come_first_and_are_marked():
    texts = words(rank_rows(stalled(), "dlrm-7"))
    assert texts[0].startswith("! 2 node-a train, stopped forward 3 min 12 s")
    assert texts[1].startswith("  0 node-a train all_to_all #1812")


def test_ranks_of_another_job_are_not_shown_for_this_one():
    assert rank_rows(healthy(), "other") == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"alive": False, "exit_status": "signal SIGKILL"}, "gone: signal SIGKILL"),
        ({"alive": False}, "gone: how is unknown"),
        ({"alive": False, "activity": "done"}, "done"),
        ({"watched": False}, "unwatched"),
        ({"activity": "checkpoint"}, "checkpoint"),
        ({"process_state": "T"}, "train, stopped"),
    ],
)
def test_activity_of_a_rank_in_words(changes, expected):
    picture = replace(healthy(), ranks=(row(0, **changes),))
    ((cells, _),) = rank_rows(picture, "dlrm-7")
    assert cells[2] == expected


def test_rank_without_a_whole_step_has_unknown_times():
    picture = replace(healthy(), ranks=(row(0, self_seconds=None, exposed_seconds=None),))
    ((cells, _),) = rank_rows(picture, "dlrm-7")
    assert cells[-2:] == ("unknown", "unknown")


def test_long_names_keep_both_ends():
    assert shortened("dlrm-7", 14) == "dlrm-7"
    assert shortened("prod-ranking-2026-11-21-retry-3", 14) == "prod-ra…etry-3"
    assert len(shortened("x" * 64, 14)) == 14


def test_job_that_is_gone_is_no_longer_chosen():
    jobs = (job("a"), job("b", findings=("f1",)))
    assert still_chosen(Picture(NOW, False, jobs, ()), "a") == "a"
    assert still_chosen(Picture(NOW, False, jobs, ()), "gone") == "b"
    assert still_chosen(Picture(NOW, False, (), ()), "gone") is None


def test_severity_of_a_newer_hub_is_counted_by_its_own_word():
    picture = stalled()
    picture = replace(picture, findings=tuple(replace(each, severity="fatal") for each in picture.findings))
    assert "1 job, 1 fatal" in state_line("", picture, None, NOW).plain
