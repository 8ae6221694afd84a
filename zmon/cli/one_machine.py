"""The options and functions that `zmon up` and `zmon demo` share: the stack, its messages, and signals that stop it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
from rich.console import Console

from zmon.cli import options
from zmon.hub.acts import read_policy
from zmon.notify import read_recipients
from zmon.stack import StackConfig


def _stack_config(
    data_dir: Path,
    box_dir: Path | None,
    host: str,
    webhook: str | None,
    webhook_warnings: str | None,
    notify_file: Path | None,
    act_file: Path | None,
) -> StackConfig:
    """Return the configuration of the stack: the values of its options, and the file of `--config`."""
    config_file = click.get_current_context().obj
    return StackConfig(
        data_dir, box_dir, host, webhook, webhook_warnings,
        config_file=config_file, notify_file=notify_file, act_file=act_file,
    )  # fmt: skip


def _valid(read: Callable[[Path], object]) -> Callable[[Path], Path]:
    """Return a function that returns the absolute path of a file. It raises what `read` raises for a wrong file."""

    def check(path: Path) -> Path:
        read(path.resolve())
        return path.resolve()

    return check


stack_options = options.grouped_options(
    "config",
    _stack_config,
    options.data_dir_option,
    options.box_dir_option,
    options.host_option,
    click.option(
        "--webhook", envvar="ZMON_WEBHOOK", metavar="URL", help="URL of the webhook that Alertmanager sends alerts to."
    ),
    click.option(
        "--webhook-warnings",
        envvar="ZMON_WEBHOOK_WARNINGS",
        metavar="URL",
        help="URL of the webhook for alerts of severity warning. Default: the URL of --webhook.",
    ),
    options.notify_file_option("notify_file", _valid(read_recipients)),
    options.act_option("act_file", _valid(read_policy)),
)


def stop_event() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def unless_stopped(work: Awaitable[object], stop: asyncio.Event) -> None:
    """Wait for the work; cancel it when `stop` is set."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if task.done():
        task.result()
    else:
        task.cancel()


def announcer(console: Console) -> Callable[[str], None]:
    """Return a function that prints a message of the stack to the terminal."""
    return lambda line: console.print(f"zmon: {line}", highlight=False, soft_wrap=True)
