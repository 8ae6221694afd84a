"""The whole picture on one machine: the stack, and a synchronous training job for it to watch."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from rich.console import Console
from rich.table import Table

from zmon import client
from zmon.errors import PartFailed, Unreachable
from zmon.records import Finding, JobView
from zmon.report import number
from zmon.stack import Stack, Urls
from zmon.stack.part import Part

NICENESS = 5  # training leaves the dashboard some of a small machine
JOB_ID = "demo"


@dataclass(frozen=True)
class DemoConfig:
    """Flags of `zmon demo`."""

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
        "ZMON_JOB_ID": JOB_ID,
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
    table = Table(title="zmon demo", title_justify="left")
    table.add_column("what")
    table.add_column("where", no_wrap=True)
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

    Returns whether all parts were healthy, and the last views of the job and of its findings.
    """
    job: JobView | None = None
    findings: list[Finding] = []
    relayed = 0
    good = True
    assert trainer.process is not None
    async with aiohttp.ClientSession() as session:
        while not stop.is_set():
            relayed = _relay(trainer.log, relayed, console)
            try:
                answer = await client.get(session, f"{stack.urls.hub}/api/v1/jobs", client.JobList, 2.0)
                job = next((j for j in answer.jobs if j.job_id == JOB_ID), job)
                found = await client.get(
                    session, f"{stack.urls.hub}/api/v1/findings", client.FindingList, 2.0, job_id=JOB_ID
                )
                findings = [f for f in found.findings if f.detected >= time.time() - (time.monotonic() - begin)]
            except Unreachable:
                pass  # it is being started again; the supervisor says so
            _show(console, job, findings)
            if trainer.process.returncode is not None:
                good = trainer.process.returncode == 0
                break
            if config.seconds is not None and time.monotonic() - begin >= config.seconds:
                break
            try:
                await asyncio.wait_for(stop.wait(), 1.0)
            except TimeoutError:
                continue
    if sys.stdout.isatty():
        console.print()
    if not good:
        raise PartFailed(
            f"the trainer ended with exit code {trainer.process.returncode}",
            "its last lines are\n" + trainer.last_lines(),
            f"the whole log is {trainer.log}",
        )
    sick = await stack.unhealthy()
    if sick:
        console.print(f"not healthy: {', '.join(sick)}: see {trainer.log.parent}")
    return not sick, job, findings


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


def _show(console: Console, job: JobView | None, findings: list[Finding]) -> None:
    if job is None or job.step is None or not job.step_seconds:
        line = "waiting for the first step …"
    else:
        loss = number(job.report["loss"]) if "loss" in job.report else "unknown"
        rate = "unknown" if job.samples_per_second is None else f"{job.samples_per_second:,.0f}"
        line = f"{job.state:>8}  step {job.step:,}  {rate} samples/s  loss {loss}  step time {_ms(job.step_seconds)}"
    active = [f for f in findings if f.resolved is None]
    if active:
        line += f"  {active[0].severity.upper()} {active[0].cause} {list(active[0].ranks)}"
    if sys.stdout.isatty():
        print(f"\r\x1b[2K{line[: console.width - 1]}", end="", flush=True)
    else:
        print(line, flush=True)


def _relay(log: Path, offset: int, console: Console) -> int:
    """Show what the trainer complained about, whole lines only; returns how far the log was read."""
    with log.open("rb") as file:
        file.seek(offset)
        text = file.read()
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.decode("utf-8", "replace").splitlines():
        if line.startswith(("trainer: ", "zmon: ")):
            console.print(line, highlight=False, markup=False)
    return offset + len(whole)


def _ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:.1f} ms"
