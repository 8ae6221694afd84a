"""Tests of the checks of a plan before the ranks connect."""

import pytest

from trainer.errors import ConfigError
from trainer.scale.planning import check


def test_table_row_wise_needs_as_many_ranks_on_every_host(small_config) -> None:
    config = small_config({"sharding": {"kind": "table_row_wise"}})
    check(config, 6, 2)
    with pytest.raises(ConfigError, match="table_row_wise does not fit 5 ranks: a host has 2 of them"):
        check(config, 5, 2)


def test_plan_with_ranks_of_two_hosts_is_refused(small_config, tmp_path) -> None:
    plan = tmp_path / "plan.yaml"
    rows = [f"- {{table: {table}, kind: table_row_wise, ranks: [1, 2]}}" for table in range(5)]
    plan.write_text("\n".join(["ranks: 4", "tables:", *rows]))
    with pytest.raises(ConfigError, match=r"table_row_wise does not allow these ranks. Write for example \[0, 1\] or"):
        check(small_config({"sharding": {"plan": str(plan)}}), 4, 2)
