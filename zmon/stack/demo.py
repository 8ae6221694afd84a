"""The whole picture on one machine: the stack, and a synchronous training job for it to watch."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from rich.console import Console
from rich.table import Table

from zmon.errors import Unreachable
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.stack import Stack, Urls
from zmon.stack.part import Part
from zmon.terminal import number
from zmon.web import client

VERDICT_SECONDS = 2.0  # the hub has named who is to blame by then
NICENESS = 5  # training leaves the dashboard some of a small machine


@dataclass(frozen=True)
class DemoConfig:
    """Flags of `zmon demo`, and the job's id: every demo is a job of its own."""

    job_id: str
    ranks: int = 4
    seconds: float | None = None  # None: until Ctrl-C
    data: Path | None = None


def trainer_part(config: DemoConfig, log: Path, box_dir: Path, host: str) -> Part:
    """The bundled trainer under torchrun."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={config.ranks}",
        "-m", "trainer", "--preset", "demo",
    ]  # fmt: skip
    if config.data is not None:
        command += ["--data", str(config.data.resolve())]
    env = {
        "ZMON_JOB_ID": config.job_id,
        "ZMON_BOX_DIR": str(box_dir),
        "ZMON_HOST": host,
        "ZMON_LABELS": "name=zmon demo,model=dlrm",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    log.write_bytes(b"")
    return Part("trainer", command, "", None, log, env, nice=NICENESS)


def url_table(urls: Urls, data_dir: Path) -> Table:
    """Where to look."""
    table = Table(title="zmon", title_justify="left")
    table.add_column("what", no_wrap=True)
    table.add_column("where", overflow="fold")
    table.add_row("dashboard", urls.dashboard)
    table.add_row("Prometheus", urls.prometheus)
    table.add_row("Alertmanager", urls.alertmanager)
    table.add_row("hub", f"{urls.hub}/api/v1/findings")
    table.add_row("agent", f"{urls.agent}/metrics")
    table.add_row("logs", str(data_dir / "logs"))
    return table


async def follow(
    stack: Stack, trainer: Part, config: DemoConfig, console: Console, stop: asyncio.Event, begin: float
) -> tuple[bool, JobView | None, list[Finding]]:
    """Show progress until the job, the time (counted from `begin`) or the person ends it.

    Returns whether all parts were healthy (whoever ends it early does not ask), and the last views of the job and of
    its findings.
    """
    job: JobView | None = None
    findings: list[Finding] = []
    relay = Relay(trainer.log, console)
    shown = ""
    good, ended = True, False
    assert trainer.process is not None
    async with aiohttp.ClientSession() as session:
        while not stop.is_set():
            relay.show()
            try:
                answer = await client.get(session, f"{stack.urls.hub}/api/v1/jobs", client.JobList, 2.0)
                job = next((j for j in answer.jobs if j.job_id == config.job_id), job)
                found = await client.get(
                    session, f"{stack.urls.hub}/api/v1/findings", client.FindingList, 2.0, job_id=config.job_id
                )
                findings = found.findings
            except Unreachable:
                pass  # it is being started again; the supervisor says so
            shown = _show(console, job, findings, shown)
            if ended:
                good = trainer.process.returncode == 0
                break
            ended = trainer.process.returncode is not None
            if ended and trainer.process.returncode:
                await asyncio.sleep(VERDICT_SECONDS)  # and one more look
            elif config.seconds is not None and time.monotonic() - begin >= config.seconds:
                break
            try:
                await asyncio.wait_for(stop.wait(), 1.0)
            except TimeoutError:
                continue
    if sys.stdout.isatty():
        console.print()
    relay.show()
    if not good:
        if not relay.num_lines:
            console.print(trainer.last_lines(), highlight=False, markup=False)
        console.print(f"the trainer {ending(trainer.process.returncode or 0)}; its whole log is {trainer.log}")
        return False, job, findings
    sick = [] if stop.is_set() else await stack.unhealthy()
    if sick:
        console.print(f"not healthy: {', '.join(sick)}: see {trainer.log.parent}")
    return not sick, job, findings


def ending(code: int) -> str:
    """How a process ended, in words."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def summary(job: JobView | None, findings: list[Finding]) -> Table:
    """What happened, in one table."""
    table = Table(title="Summary", title_justify="left", show_header=False)
    if job is None:
        table.add_row("steps", "none: no step was seen")
        return table
    table.add_row("steps", str(job.step))
    table.add_row("samples/s", "unknown" if job.samples_per_second is None else f"{job.samples_per_second:,.0f}")
    table.add_row("step time p50 / p95", f"{_ms(job.step_seconds)} / {_ms(job.step_seconds_p95)}")
    for key, value in job.report.items():
        table.add_row(key, number(value))
    total = sum(job.time.values())
    for cause, seconds in sorted(job.time.items(), key=lambda item: -item[1]):
        table.add_row(f"time in {cause}", f"{seconds / total:6.1%}" if total else "unknown")
    table.add_row("findings", "none" if not findings else "\n".join(f"{f.severity} {f.summary}" for f in findings))
    return table


class Relay:
    """Shows what the trainer and its probe complain about, as it comes into the trainer's log."""

    def __init__(self, log: Path, console: Console) -> None:
        self._log, self._console = log, console
        self._offset = 0
        self.num_lines = 0  # shown so far

    def show(self) -> None:
        """Whole lines only; the rest waits for the next call."""
        with self._log.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            if line.startswith(("trainer: ", "zmon: ")):
                self._console.print(line, highlight=False, markup=False, soft_wrap=True)
                self.num_lines += 1


def progress_line(job: JobView | None, findings: list[Finding]) -> str:
    """How it goes, in one line."""
    if job is None or not job.step or job.step_seconds is None:
        return "waiting for the first step …"
    loss = number(job.report["loss"]) if "loss" in job.report else "unknown"
    rate = "unknown" if job.samples_per_second is None else f"{job.samples_per_second:,.0f}"
    line = f"{job.state:>8}  step {job.step:,}  {rate} samples/s  loss {loss}  step time {_ms(job.step_seconds)}"
    worst = next((f for f in findings if f.resolved is None), None)
    if worst is not None:
        line += f"  {worst.severity.upper()} {worst.cause} rank {', '.join(map(str, worst.ranks)) or 'unknown'}"
    return line


def _show(console: Console, job: JobView | None, findings: list[Finding], before: str) -> str:
    line = progress_line(job, findings)
    if sys.stdout.isatty():
        print(f"\r\x1b[2K{line[: console.width - 1]}", end="", flush=True)
    elif line != before:
        print(line, flush=True)
    return line


def _ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:.1f} ms"
