"""A step log played back: the hub's detectors say of it what they would have said of the job."""

import json

import pytest
from click.testing import CliRunner

from tests.offline.analyze.logs import rows, without, written
from zmon.cli.analyze import analyze
from zmon.offline.analyze import play, read
from zmon.offline.analyze.picture import heat_map, shade


@pytest.fixture
def run(tmp_path):
    def run(told, *arguments):
        return CliRunner().invoke(analyze, [str(written(tmp_path / "log.jsonl", told)), *arguments])

    return run


def test_slow_rank_is_named_with_the_steps_it_was_slow_in(run):
    answer = json.loads(run(rows(slow=2, since=200), "--json").output)
    ((attempt,), (found,)) = answer["attempts"], answer["attempts"][0]["findings"]
    assert (found["finding"]["cause"], found["finding"]["ranks"]) == ("compute_straggler", [2])
    assert found["first_step"] <= 260
    assert found["last_step"] == 400
    assert 396 <= attempt["steps"] <= 400  # those before the first one that was looked at are not counted


def test_healthy_log_has_nothing_that_stands_out(run):
    answer = run(rows())
    assert answer.exit_code == 0
    assert answer.output.startswith("nothing stands out\n")


def test_findings_end_with_exit_code_1(run):
    assert run(rows(slow=2)).exit_code == 1


def test_time_of_a_log_sums_to_its_steps(run):
    told = list(rows())
    (attempt,) = json.loads(run(told, "--json").output)["attempts"]
    assert sum(attempt["time"].values()) == pytest.approx(attempt["seconds"])
    assert attempt["seconds"] == pytest.approx(sum(row["duration"] for row in told if row["rank"] == 0), rel=0.02)


def test_log_of_one_node_has_no_verdict_and_says_why(run):
    answer = run(row for row in rows() if row["rank"] != 1)
    assert answer.exit_code == 3
    assert "no verdict" in answer.output
    assert "3 of 4 ranks are in the log" in " ".join(answer.output.split())


def test_log_of_durations_alone_has_no_verdict(run):
    answer = run(without(rows(slow=2), "phase_", "exposed_"))
    assert answer.exit_code == 3
    assert "who waits for whom is unknown" in answer.output


def test_attempts_are_judged_apart(run):
    told = [*rows(steps=300), *rows(steps=300, slow=1, attempt=1)]
    answer = json.loads(run(told, "--json").output)
    assert [len(attempt["findings"]) for attempt in answer["attempts"]] == [0, 1]
    assert run(told, "--attempt", "7").exit_code == 2


def test_clocks_of_hosts_that_differ_change_nothing(tmp_path):
    told = list(rows(slow=2, since=200))
    shifted = [{**row, "start": row["start"] + 47.0 * (row["host"] == "node-1")} for row in told]
    one, other = (play(read([written(tmp_path / "a.jsonl", some)]), 0) for some in (told, shifted))
    assert [(s.first_step, s.finding.ranks) for s in one.spells] == [
        (s.first_step, s.finding.ranks) for s in other.spells
    ]


def test_slow_rank_is_the_dark_row(tmp_path):
    log = read([written(tmp_path / "a.jsonl", rows(slow=2, since=200, times=1.8))])
    picture = heat_map(log, 0, columns=4, rows=32)
    assert picture.first_steps == (1, 101, 201, 301)
    drawn = {rank: "".join(map(shade, cells)) for rank, cells in zip(picture.ranks, picture.cells, strict=True)}
    assert drawn == {0: "    ", 1: "    ", 2: "  ▓▓", 3: "    "}


def test_of_many_ranks_those_are_drawn_that_stand_out(tmp_path):
    log = read([written(tmp_path / "a.jsonl", rows(steps=20, ranks=12, slow=7, times=3.0))])
    assert 7 in heat_map(log, 0, columns=8, rows=3).ranks
    assert len(heat_map(log, 0, columns=8, rows=3).ranks) == 3


def test_stretch_without_a_record_is_a_point(tmp_path):
    told = [row for row in rows(steps=40) if row["rank"] or row["step"] <= 20]
    picture = heat_map(read([written(tmp_path / "a.jsonl", told)]), 0, columns=4, rows=4)
    assert [shade(cell) for cell in picture.cells[0]] == [" ", " ", "·", "·"]


def test_log_is_judged_by_the_thresholds_of_the_site(run):
    """Rank 2 is slow, and this site minds only who takes ten times as long."""
    assert (
        run(rows(slow=2), "--detectors", "{straggler: {slower_ratio: 10}, slowdown: {slow_ratio: 20}}").exit_code == 0
    )
