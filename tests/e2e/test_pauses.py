"""Tests of pauses of real jobs: a recurring pause that no hook sees warns once, a pause of the whole host never."""

from __future__ import annotations

import contextlib
import signal
import time

import psutil
import pytest

from tests.e2e.conftest import TRAINER_WITH_PAUSES
from tests.e2e.running_stack import wait_for

SAVING = """
import time
import torch, torch.distributed as dist
import zmon
zmon.attach()
dist.init_process_group("gloo")
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

def save(step):
    if dist.get_rank() == 0 and step % 100 == 0:
        time.sleep(3.0)

for step in range(1, 1_000_000):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    time.sleep(0.02)
    save(step)
"""


@pytest.mark.slow
def test_recurring_pause_is_a_warning_once_and_then_info(stack, start_job, tmp_path):
    script = tmp_path / "saving.py"
    script.write_text(SAVING)
    job = start_job(str(script), ranks=2)

    def pauses() -> list[dict[str, str]]:
        """Return the findings about pauses that are over, the oldest first."""
        findings = sorted(stack.findings(job.job_id, active=False), key=lambda finding: finding["onset"])
        return findings if len(findings) >= 4 and all(f["resolved"] for f in findings) else []

    findings = wait_for(f"four pauses, see {job.log}", pauses, 120)
    assert findings[0]["severity"] == "warning"
    assert (findings[0]["cause"], findings[0]["ranks"]) == ("compute_hang", [0])
    assert {finding["severity"] for finding in findings[2:]} == {"info"}  # one may begin before the first is learned
    view = stack.job(job.job_id)
    assert view is not None
    (pause,) = view["pauses"]
    assert pause["place"]["frame"].startswith("save() at saving.py:")
    assert 2.0 <= pause["longest_seconds"] < 10.0
    assert "pauses that healed: " in stack.zmon("status").stdout
    alerts = stack.alerts(job.job_id, "firing")
    assert {alert["labels"]["severity"] for alert in alerts} <= {"warning"}


def signal_all(processes: list[psutil.Process], number: int) -> None:
    """Send a signal to those processes that still run."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


@pytest.mark.slow
def test_quiet_when_the_whole_host_was_suspended(stack, start_job):
    """A virtual machine that moves stops all processes, the agent's too; only the clock goes on."""
    job = start_job(*TRAINER_WITH_PAUSES, ranks=2)
    stack.await_steps(job, 40)
    begin = time.time()
    for _ in range(3):
        host = psutil.Process().children(recursive=True)
        signal_all(host, signal.SIGSTOP)
        time.sleep(6.0)
        signal_all(host, signal.SIGCONT)
        time.sleep(4.0)
    assert stack.findings(job.job_id, active=False, since=begin) == []
