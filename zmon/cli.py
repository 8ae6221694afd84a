"""The `zmon` command: one short function per subcommand, errors in one line, exit 2 for misuse."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import click
import msgspec
import platformdirs
import yaml
from rich.console import Console

import zmon
from zmon import client, server
from zmon.agent import Agent, AgentConfig
from zmon.box import DEFAULT_ROOT
from zmon.doctor import examine
from zmon.errors import PartFailed, Unreachable, UsageError, ZmonError
from zmon.hub import Hub, HubConfig
from zmon.run import become, environment, inherited, refusal
from zmon.stack import Stack, StackConfig
from zmon.stack.demo import DemoConfig, follow, summary, trainer_part, url_table
from zmon.terminal import doctor_table, status_table

PORT = click.IntRange(1, 65535)
AGENT_URL = f"http://127.0.0.1:{StackConfig.agent_port}"
HUB_URL = f"http://127.0.0.1:{StackConfig.hub_port}"
BLIND = 3  # exit code of `zmon status` when nobody can tell

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="ZMON_DATA_DIR",
    default=Path(platformdirs.user_state_dir("zmon")),
    show_default=True,
    help="Findings, history, logs.",
)
box_dir_option = click.option(
    "--box-dir",
    type=click.Path(path_type=Path, file_okay=False, readable=False),
    envvar="ZMON_BOX_DIR",
    default=DEFAULT_ROOT,
    show_default=True,
    help="Where the ranks' black boxes lie.",
)
host_option = click.option(
    "--host",
    envvar=["ZMON_HOST", "NODE_NAME"],
    default=socket.gethostname(),
    show_default=True,
    help="This node's name in metrics and findings.",
)
bind_option = click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
public_option = click.option("--public", is_flag=True, help="Allow an address that others on the network can reach.")
webhook_option = click.option("--webhook", envvar="ZMON_WEBHOOK", help="URL that Alertmanager sends alerts to.")


def _load_config(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """A YAML file: subcommand → flag → value."""
    if path is None:
        return
    try:
        loaded = yaml.safe_load(path.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {path}", str(error).splitlines()[0]) from error
    if not isinstance(loaded, dict):
        raise UsageError(f"cannot use {path}", "it holds no mapping", "write e.g. `hub: {port: 9999}`")
    context.default_map = loaded


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(zmon.__version__, prog_name="zmon")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="ZMON_CONFIG",
    callback=_load_config,
    expose_value=False,
    help="YAML file with flags by subcommand.",
)
def cli() -> None:
    """Watches synchronous distributed training: who stalled the job, why, and what it costs."""


@cli.command()
@bind_option
@public_option
@click.option("--port", type=PORT, default=StackConfig.agent_port, show_default=True)
@box_dir_option
@host_option
def agent(bind: str, public: bool, port: int, box_dir: Path, host: str) -> None:
    """Watch the ranks and the hardware of this node."""
    _serve("agent", bind, public, port, lambda: Agent(AgentConfig(box_dir, host)).app())


@cli.command()
@bind_option
@public_option
@click.option("--port", type=PORT, default=StackConfig.hub_port, show_default=True)
@click.option(
    "--agents",
    envvar="ZMON_AGENTS",
    default=AGENT_URL,
    show_default=True,
    help="URL,URL,…",
)
@data_dir_option
def hub(bind: str, public: bool, port: int, agents: str, data_dir: Path) -> None:
    """Line the ranks up, judge, publish findings."""
    urls = tuple(url.strip().rstrip("/") for url in agents.split(",") if url.strip())
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise UsageError(f"--agents {agents!r} names no agent", "it takes URLs", "for example http://node-1:9780")
    _serve("hub", bind, public, port, lambda: Hub(HubConfig(urls, data_dir)).app())


@cli.command()
@click.option("--port", type=PORT, default=StackConfig.dashboard_port, show_default=True)
@click.option("--hub", envvar="ZMON_HUB_URL", default=HUB_URL, show_default=True)
@click.option(
    "--prometheus",
    envvar="ZMON_PROMETHEUS_URL",
    default=f"http://127.0.0.1:{StackConfig.prometheus_port}",
    show_default=True,
)
def dashboard(port: int, hub: str, prometheus: str) -> None:
    """Show it to people."""
    import importlib.resources

    app = str(importlib.resources.files("dashboards") / "app.py")
    os.environ.update(ZMON_HUB_URL=hub, ZMON_PROMETHEUS_URL=prometheus)
    flags = {
        "server.port": port, "server.address": "127.0.0.1", "server.headless": "true",
        "server.fileWatcherType": "none", "browser.gatherUsageStats": "false", "client.toolbarMode": "minimal",
    }  # fmt: skip
    arguments = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", app, *arguments])


@cli.command()
@data_dir_option
@box_dir_option
@host_option
@webhook_option
@click.option("--ready-file", type=click.Path(path_type=Path, dir_okay=False), help="Receives the URLs as JSON.")
def up(data_dir: Path, box_dir: Path, host: str, webhook: str | None, ready_file: Path | None) -> None:
    """Prometheus, Alertmanager, agent, hub and dashboard on this machine, until Ctrl-C."""
    console = Console()

    async def run() -> None:
        stop = _stop_event()
        stack = Stack(StackConfig(data_dir, box_dir, host, webhook), _say(console))
        try:
            await stack.start()
            await _unless_stopped(stack.ready(), stop)
            if stop.is_set():
                return
            console.print(url_table(stack.urls, data_dir))
            if ready_file is not None:
                partial = ready_file.with_suffix(".partial")
                partial.write_text(json.dumps(asdict(stack.urls)))
                partial.rename(ready_file)
            await stop.wait()
        finally:
            await stack.stop()

    asyncio.run(run())


@cli.command()
@data_dir_option
@box_dir_option
@host_option
@webhook_option
@click.option("--seconds", type=click.FloatRange(min=1), help="End by itself after that long, with a summary.")
@click.option("--ranks", type=click.IntRange(1, 64), default=4, show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="A Criteo-Kaggle TSV to train on.")
def demo(
    data_dir: Path, box_dir: Path, host: str, webhook: str | None, seconds: float | None, ranks: int, data: Path | None
) -> None:
    """Everything on this machine, and a synchronous DLRM training for it to watch."""
    if data is not None and not data.is_file():
        why = "it is no regular file" if data.exists() else "there is no such file"
        raise UsageError(f"cannot train on {data}", why, "name a Criteo-Kaggle TSV")
    console = Console()
    config = DemoConfig(f"demo-{datetime.now(UTC):%Y%m%dT%H%M%S}", ranks, seconds, data)

    async def run() -> bool:
        begin, stop = time.monotonic(), _stop_event()
        stack = Stack(StackConfig(data_dir, box_dir, host, webhook), _say(console))
        trainer = trainer_part(config, data_dir / "logs" / "trainer.log", box_dir, host)
        try:
            await stack.start()
            stack.add(trainer)
            await trainer.start()
            console.print(url_table(stack.urls, data_dir))
            await _unless_stopped(stack.ready(), stop)
            if stop.is_set():
                return True
            good, job, findings = await follow(stack, trainer, config, console, stop, begin)
            console.print(summary(job, findings))
            seen = job is not None and bool(job.step) and job.ranks_seen == job.world_size
            return good and (seen or stop.is_set())
        finally:
            await stack.stop()
            shutil.rmtree(box_dir / config.job_id, ignore_errors=True)  # nobody is left to ask about it

    if not asyncio.run(run()):
        raise PartFailed(
            "the demo was not healthy", "a part died, or not all ranks were seen", f"see {data_dir / 'logs'}"
        )


@cli.command("run", context_settings={"allow_interspersed_args": False})
@click.option("--job-id", help="What the job is called; else what its launcher says.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="What else to know it by; repeatable.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def run_command(job_id: str | None, labels: tuple[str, ...], command: tuple[str, ...]) -> None:
    """Run a torch job watched, without a change to its code. The exit code is CMD's."""
    env = environment(inherited(), job_id, labels)
    try:
        become(command, env)
    except OSError as error:
        exit_code, why = refusal(command[0], error)
        click.echo(f"zmon: {why}", err=True)
        sys.exit(exit_code)


@cli.command()
@data_dir_option
@click.option("--hub", envvar="ZMON_HUB_URL", help="Base URL of the hub.")
@click.option("--json", "as_json", is_flag=True)
def status(data_dir: Path, hub: str | None, as_json: bool) -> None:
    """Jobs and what is wrong with them. Exit code 0: healthy, 1: findings, 3: nobody can tell."""
    base = (hub or _stack_url(data_dir, "hub") or HUB_URL).rstrip("/")

    async def ask() -> tuple[client.JobList, client.FindingList]:
        async with aiohttp.ClientSession() as session:
            return (
                await client.get(session, f"{base}/api/v1/jobs", client.JobList, 3.0),
                await client.get(session, f"{base}/api/v1/findings", client.FindingList, 3.0, active=1),
            )

    try:
        jobs, found = asyncio.run(ask())
    except Unreachable as error:
        click.echo(f"zmon: {error}. Is the hub running? Name it with --hub", err=True)
        sys.exit(BLIND)
    if as_json:
        answer = {"schema": 1, "blind": jobs.blind, "jobs": jobs.jobs, "findings": found.findings}
        click.echo(msgspec.json.encode(answer).decode())
    else:
        Console().print(status_table(jobs.jobs, found.findings, jobs.blind))
    sys.exit(BLIND if jobs.blind else 1 if found.findings else 0)


@cli.command()
@data_dir_option
@box_dir_option
@click.option("--agent", envvar="ZMON_AGENT_URL", help="Base URL of this node's agent.")
@click.option("--hub", envvar="ZMON_HUB_URL", help="Base URL of the hub.")
@click.option("--json", "as_json", is_flag=True)
def doctor(data_dir: Path, box_dir: Path, agent: str | None, hub: str | None, as_json: bool) -> None:
    """Is what should watch this node armed? Exit code 0: all of it, 1: something is inert."""
    agent = agent or _stack_url(data_dir, "agent") or AGENT_URL
    hub = hub or _stack_url(data_dir, "hub") or HUB_URL
    checks = asyncio.run(examine(box_dir, agent.rstrip("/"), hub.rstrip("/")))
    if as_json:
        click.echo(msgspec.json.encode({"schema": 1, "checks": checks}).decode())
    else:
        Console().print(doctor_table(checks))
    sys.exit(1 if any(check.armed is False for check in checks) else 0)


def main() -> None:
    """The way in: what goes wrong is one line on stderr."""
    try:
        cli(prog_name="zmon", standalone_mode=False)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        click.echo(f"zmon: {error.format_message()} See {context.command_path if context else 'zmon'} --help", err=True)
        sys.exit(2)
    except UsageError as error:
        click.echo(f"zmon: {error}", err=True)
        sys.exit(2)
    except ZmonError as error:
        click.echo(f"zmon: {error}", err=True)
        sys.exit(1)


def _serve(name: str, bind: str, public: bool, port: int, make: Callable[[], aiohttp.web.Application]) -> None:
    server.check_bind(bind, public)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")

    async def run() -> None:
        await server.serve(make(), bind, port, name)

    asyncio.run(run())


def _stop_event() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _unless_stopped(work: Any, stop: asyncio.Event) -> None:
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if task.done():
        task.result()
    else:
        task.cancel()


def _say(console: Console) -> Callable[[str], None]:
    return lambda line: console.print(f"zmon: {line}", highlight=False, markup=False, soft_wrap=True)


def _stack_url(data_dir: Path, name: str) -> str | None:
    """Where a stack that runs on this machine left word of its parts."""
    try:
        return str(json.loads((data_dir / "stack.json").read_text())[name])
    except (OSError, ValueError, KeyError):
        return None
