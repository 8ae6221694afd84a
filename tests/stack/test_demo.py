"""Tests of the trainer that the demo starts."""

import pytest

from zmon.stack.demo import DemoConfig, trainer_part


@pytest.mark.parametrize("data", [None, "rows.tsv"])
def test_trainer_part_has_ranks_job_id_and_data_of_the_demo(tmp_path, data):
    config = DemoConfig("demo-1", ranks=2, data=tmp_path / data if data else None)
    part = trainer_part(config, tmp_path / "log", tmp_path / "boxes", "node-a")
    assert "--nproc-per-node=2" in part.command
    assert part.env["ZMON_JOB_ID"] == "demo-1"
    assert part.env["ZMON_BOX_DIR"] == str(tmp_path / "boxes")
    assert (str(tmp_path / "rows.tsv") in part.command) == bool(data)
    assert (tmp_path / "log").read_bytes() == b""
