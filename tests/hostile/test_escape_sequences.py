"""Tests of escape sequences in files of other programs: `zmon analyze` writes none of them to the terminal."""

import json
import pickle

import pytest

from tests.job.test_flight import dump, entry


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_escape_sequences_of_a_step_log_do_not_reach_the_terminal(ending, tmp_path, command):
    evil = "\x1b[2J\n\u202ehost"
    rows = [
        {"job_id": evil, "rank": rank, "step": step, "duration": 0.02 + rank, "host": evil, "role": evil,
         "phase_data": 0.01, f"exposed_{evil}": 0.005, f"report_{evil}": 1.0}
        for step in range(200)
        for rank in range(2)
    ]  # fmt: skip
    path = tmp_path / f"steps.{ending}"
    if ending == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet")
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    _, out, err = command("analyze", path)
    assert "\\x1b[2J" in out + err
    assert not set("\x1b\u202e") & {*out, *err}


def test_escape_sequences_of_a_flight_record_do_not_reach_the_terminal(tmp_path, command):
    evil = "\x1b[2J\n\u202ename"
    for rank in (0, 1):
        content = {**json.loads(dump(entry(1 + rank, name=f"nccl:{evil}", group=evil, state=evil))), "version": "2.10"}
        content["pg_config"] = {evil: {"name": evil, "desc": evil, "ranks": "[0, 1]"}}
        raw = json.dumps(content).encode() if rank else pickle.dumps(content)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(raw)
    _, out, err = command("analyze", tmp_path)
    assert "name" in out + err
    assert not set("\x1b\u202e") & {*out, *err}
