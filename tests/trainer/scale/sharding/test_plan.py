"""Tests of sharding plans as files, as text, and as JSON for zmon.plan()."""

import re

import pytest
import yaml

from trainer.errors import ConfigError
from trainer.registry import KINDS
from trainer.scale.sharding.plan import Memory, Plan, RankLoad, as_text, in_bytes, load_plan
from trainer.sharding import Placement, shards_of

PLACEMENTS = (Placement("table_wise", (1,)), Placement("row_wise", (0, 1)), Placement("data_parallel", (0, 1)))
LOADS = (
    RankLoad((1, 2), 15, 2_000, 3_000, 400, 0.0015, Memory(1_000_000, 4_000, 500, 60)),
    RankLoad((0, 1, 2), 25, 2_100, 3_100, 400, 0.0025, Memory(1_000_000, 8_000, 1_000, 70)),
)
PLAN = Plan(2, PLACEMENTS, LOADS)
ROWS = (10, 4, 6)


def test_saved_plan_is_loaded(tmp_path) -> None:
    path = tmp_path / "plan.yaml"
    PLAN.save(path)
    assert load_plan(path, 3, 2, 2) == Plan(2, PLACEMENTS)
    assert len(path.read_text().splitlines()) == 5  # one line per table, to edit


def edited_plan(tmp_path, edit):
    path = tmp_path / "plan.yaml"
    PLAN.save(path)
    content = yaml.safe_load(path.read_text())
    edit(content)
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda content: content.update(ranks=3), "is for 3 ranks: this job has 2"),
        (lambda content: content.pop("tables"), "has no tables"),
        (lambda content: content["tables"].pop(), r"does not fit 3 tables: check table 2"),
        (lambda content: content["tables"].append(content["tables"][0]), "places table 0 twice"),
        (lambda content: content["tables"][1].update(kind="tablewise"), "has kind tablewise for table 1"),
        (
            lambda content: content["tables"][0].update(ranks=[2]),
            r"has table 0 on ranks \[2\]: table_wise does not allow these ranks",
        ),
        (lambda content: content["tables"][0].update(ranks=[True]), "has a line"),
        (lambda content: content["tables"][0].pop("kind"), "has a line"),
    ],
)
def test_invalid_plan_is_refused(tmp_path, edit, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_plan(edited_plan(tmp_path, edit), 3, 2, 2)


def test_missing_or_malformed_plan_file_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot read the plan"):
        load_plan(tmp_path / "nowhere.yaml", 3, 2, 2)
    (tmp_path / "plan.yaml").write_text("ranks: 0x_")
    with pytest.raises(ConfigError, match="is not valid YAML"):
        load_plan(tmp_path / "plan.yaml", 3, 2, 2)


def test_shards_are_ordered_by_rank_and_omit_replicated_tables() -> None:
    shards = shards_of(PLAN.tables, KINDS, ROWS, (4,) * 3)
    assert [(shard.rank, shard.table, shard.first_row, shard.num_rows) for shard in shards] == [
        (0, 1, 0, 2),
        (1, 0, 0, 10),
        (1, 1, 2, 2),
    ]


def test_text_has_placement_and_prediction() -> None:
    lines = [re.sub(" +", " ", line).strip() for line in as_text(PLAN, ROWS, (100,) * 3).splitlines()]
    assert lines == [
        "3 tables on 2 ranks",
        "kind ranks tables rows bytes which",
        "data_parallel 0-1 1 6 600 B 2",
        "row_wise 0-1 1 4 400 B 1",
        "table_wise 1 1 10 1 kB 0",
        "",
        "predicted for a step, without the dense layers",
        "rank tables lookups sent received all-reduced time memory",
        "0 2 15 2 kB 3 kB 400 B 1.5 ms 1 MB",
        "1 3 25 2.1 kB 3.1 kB 400 B 2.5 ms 1.01 MB",
        "memory of rank 1: base 1 MB, weights 8 kB, state 1 kB, batch 70 B",
    ]


def test_text_is_short_for_many_tables_and_ranks() -> None:
    few = Plan(1, (Placement("table_wise", (0,)),) * 26)
    assert len(as_text(few, (5,) * 26, (8,) * 26).splitlines()) == 3
    assert "0-25" in as_text(few, (5,) * 26, (8,) * 26)
    many = Plan(40, (Placement("row_wise", tuple(range(40))),), (LOADS[0],) * 39 + (LOADS[1],))
    text = as_text(many, (80,), (8,))
    assert "and 32 faster ranks" in text
    assert "\n  39 " in text  # the slowest rank is in the text


def test_plan_without_prediction_prints_no_prediction() -> None:
    assert "predicted" not in as_text(Plan(2, PLACEMENTS), ROWS, (8,) * 3)
    assert Plan(2, PLACEMENTS).as_json() == []


def test_prediction_as_json_is_a_list_by_rank() -> None:
    assert PLAN.as_json()[1] == {
        "tables": [0, 1, 2],
        "lookups": 25,
        "sent_bytes": 2_100,
        "received_bytes": 3_100,
        "memory_bytes": 1_009_070,
    }


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.7, "1 kB"),
        (12_345, "12.3 kB"),
        (2e9, "2 GB"),
        (3e12, "3 TB"),
        (2e16, "20,000 TB"),
    ],
)
def test_bytes_are_formatted_with_rounded_value_and_unit(size: float, text: str) -> None:
    assert in_bytes(size) == text
