"""Test of a job with a plan and a hot shard. The finding names its tables and compares plan and measurement."""

import pytest
import requests

from tests.e2e.endings import await_finding

HOT = 2  # the rank with the hot shard, `hot` in the script
SCRIPT = """
import time, torch, torch.distributed as dist, zmon
zmon.attach()
dist.init_process_group("gloo")
rank, ranks, rows, hot = dist.get_rank(), dist.get_world_size(), 2000, 2
planned = {"lookups": rows * ranks, "sent_bytes": 4 * rows * ranks, "received_bytes": 4 * rows * ranks, "seconds": 0.01}
zmon.plan(ranks=[{**planned, "tables": [f"users_{r}", f"items_{r}"]} for r in range(ranks)], samples_per_second=1e5)
for step in range(10**6):
    with zmon.step():
        zmon.phase("embedding")
        to_send = [rows * (5 if to == hot else 1) for to in range(ranks)]
        to_receive = [to_send[rank]] * ranks
        zmon.work(samples=32, lookups=sum(to_receive))
        time.sleep(0.01 * to_send[rank] / rows)
        dist.all_to_all_single(torch.empty(sum(to_receive)), torch.ones(sum(to_send)), to_receive, to_send)
"""


@pytest.mark.slow  # tests of detectors and hub test plan and imbalance without a job
def test_finding_of_a_hot_shard_names_its_tables(stack, start_job, tmp_path):
    script = tmp_path / "hot_shard.py"
    script.write_text(SCRIPT)
    job = start_job(str(script))
    finding = await_finding(stack, job.job_id, 60, detector="imbalance")
    assert (finding["cause"], finding["ranks"]) == ("all_to_all_skew", [HOT])
    assert "; it holds users_2, items_2; 32,000 bytes were planned, it has 5.0 × that" in finding["summary"]
    assert finding["evidence"]["plan"]["tables"] == ["users_2", "items_2"]
    rows = requests.get(f"{stack.urls['hub']}/api/v1/jobs/{job.job_id}/plan", timeout=5).json()["ranks"]
    assert [row["planned"]["lookups"] for row in rows] == [8000] * 4
    assert [row["measured"]["lookups"] for row in rows] == [8000, 8000, 40000, 8000]
    status = stack.zmon("status", "--job", job.job_id)
    assert status.returncode == 1
    assert "users_2" in status.stdout
