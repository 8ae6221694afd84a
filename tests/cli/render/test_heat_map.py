"""Tests of the step times of the ranks of a step log as a map of shades."""

from tests.offline.analyze.logs import rows, written
from zmon.cli.render.heat_map import heat_map, heat_map_text, shade
from zmon.offline.analyze import play, read


def test_heat_map_shows_a_slow_rank_as_a_dark_row(tmp_path):
    log = read([written(tmp_path / "a.jsonl", rows(slow=2, since=200, times=1.8))])
    drawn_map = heat_map(log, 0, columns=4, rows=32)
    assert drawn_map.first_steps == (1, 101, 201, 301)
    shades = {rank: "".join(map(shade, cells)) for rank, cells in zip(drawn_map.ranks, drawn_map.cells, strict=True)}
    assert shades == {0: "    ", 1: "    ", 2: "  ▓▓", 3: "    "}


def test_heat_map_shows_the_slowest_of_many_ranks(tmp_path):
    log = read([written(tmp_path / "a.jsonl", rows(steps=20, ranks=12, slow=7, times=3.0))])
    assert 7 in heat_map(log, 0, columns=8, rows=3).ranks
    assert len(heat_map(log, 0, columns=8, rows=3).ranks) == 3


def test_heat_map_shows_missing_records_as_dots(tmp_path):
    steps = [row for row in rows(steps=40) if row["rank"] or row["step"] <= 20]
    drawn_map = heat_map(read([written(tmp_path / "a.jsonl", steps)]), 0, columns=4, rows=4)
    assert [shade(cell) for cell in drawn_map.cells[0]] == [" ", " ", "·", "·"]


def test_steps_below_a_narrow_heat_map_are_two_numbers(tmp_path):
    log = read([written(tmp_path / "a.jsonl", rows(steps=3))])
    assert heat_map_text(log, play(log, 0), 80).plain.splitlines()[-1] == "   step 1 3"
