"""Tests of sharding plans as files, and as JSON for zmon.plan()."""

import pytest
import yaml

from tests.trainer.scale.sharding.example_plan import PLACEMENTS, PLAN, ROWS
from trainer.errors import ConfigError
from trainer.registry import KINDS
from trainer.scale.sharding.plan import Plan, load_plan
from trainer.sharding import shards_of


def test_saved_plan_is_loaded(tmp_path) -> None:
    path = tmp_path / "plan.yaml"
    PLAN.save(path)
    assert load_plan(path, 3, 2, 2) == Plan(2, PLACEMENTS)
    assert len(path.read_text().splitlines()) == 5  # one line per table, to edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda content: content.update(ranks=3), "is for 3 ranks: this job has 2"),
        (lambda content: content.pop("tables"), "has no tables"),
        (lambda content: content["tables"].pop(), r"does not fit 3 tables: check table 2"),
        (lambda content: content["tables"].append(content["tables"][0]), "places table 0 twice"),
        (lambda content: content["tables"][1].update(kind="tablewise"), "has kind tablewise for table 1"),
        (lambda content: content["tables"][0].update(ranks=[2]), r"table 0 on ranks \[2\]: table_wise does not allow"),
        (lambda content: content["tables"][0].update(ranks=[True]), "has a line"),
        (lambda content: content["tables"][0].pop("kind"), "has a line"),
    ],
)
def test_invalid_plan_is_refused(tmp_path, edit, message: str) -> None:
    path = tmp_path / "plan.yaml"
    PLAN.save(path)
    content = yaml.safe_load(path.read_text())
    edit(content)
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=message):
        load_plan(path, 3, 2, 2)


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


def test_prediction_as_json_is_a_list_by_rank() -> None:
    assert PLAN.as_json()[1] == {
        "tables": [0, 1, 2],
        "lookups": 25,
        "sent_bytes": 2_100,
        "received_bytes": 3_100,
        "memory_bytes": 1_009_070,
    }


def test_plan_without_prediction_is_an_empty_list_as_json() -> None:
    assert Plan(2, PLACEMENTS).as_json() == []
