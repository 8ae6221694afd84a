"""Options that several subcommands share, and the default URLs of the daemons."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

import click
import platformdirs
from click.decorators import FC

from zmon.box.roots import check_local
from zmon.errors import BoxUnavailable
from zmon.notify.recipients import read_recipients
from zmon.schema.http_config import VARIABLE, HttpConfig, Server
from zmon.stack import StackConfig
from zmon.web.http_client import read_http_config

AGENT_URL = f"http://127.0.0.1:{StackConfig.agent_port}"
HUB_URL = f"http://127.0.0.1:{StackConfig.hub_port}"
PROMETHEUS_URL = f"http://127.0.0.1:{StackConfig.prometheus_port}"


def grouped_options(
    name: str, make: Callable[..., object], *options: Callable[[Any], Any]
) -> Callable[[Any], Callable[..., None]]:
    """Return a decorator that adds options to a command.

    `make` gets the values of these options. The command gets what `make` returns, as argument `name`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_group(**values: Any) -> None:
            grouped = {parameter: values.pop(parameter) for parameter in signature(make).parameters}
            command(**values, **{name: make(**grouped)})

        for option in reversed(options):  # as Python applies decorators: the help has them in the given order
            with_group = option(with_group)
        return with_group

    return decorate


data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="ZMON_DATA_DIR",
    default=Path(platformdirs.user_state_dir("zmon")),
    show_default=True,
    help="Directory of findings, incidents, step log, baselines, time accounts, drill sessions, Prometheus history and "
    "logs.",
)


def _box_dir(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Return the absolute path of a directory that can have boxes. Raises click.BadParameter."""
    if path is None:
        return None
    try:
        check_local(path)
    except BoxUnavailable as error:
        raise click.BadParameter(str(error)) from error
    return path.absolute()


box_dir_option = click.option(
    "--box-dir",
    type=click.Path(path_type=Path, file_okay=False, readable=False),
    callback=_box_dir,
    envvar="ZMON_BOX_DIR",
    help="The only directory of black boxes. Default: those of all users, in /run/zmon and /dev/shm.",
)
host_option = click.option(
    "--host",
    envvar=["ZMON_HOST", "NODE_NAME"],
    default=socket.gethostname(),
    show_default=True,
    metavar="NAME",
    help="Name of this node in metrics and findings.",
)
bind_option = click.option(
    "--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="IP address to listen on."
)
insecure_public_option = click.option(
    "--insecure-public",
    "--public",
    "insecure_public",
    is_flag=True,
    help="Listen beyond this machine without TLS or without knowing who asks. --public is the older name.",
)


def file_option(
    flag: str, name: str, variable: str, read: Callable[[Path], object], help_text: str
) -> Callable[[FC], FC]:
    """Return an option that takes the path of a file. Its value is what `read` returns for the file."""
    return click.option(
        flag,
        name,
        envvar=variable,
        type=click.Path(path_type=Path, dir_okay=False),
        callback=lambda context, option, path: None if path is None else read(path),
        metavar="FILE",
        help=help_text,
    )


agents_kubernetes_option = click.option(
    "--agents-kubernetes",
    envvar="ZMON_AGENTS_KUBERNETES",
    default="",
    metavar="NAMESPACE/SELECTOR[:PORT]",
    help="The agents: the pods of a namespace with these labels, as kubernetes:NAMESPACE/SELECTOR in --agents of zmon "
    "hub. The selector may have commas. Default port: the one that a pod calls zmon-agent or http, otherwise "
    f"{StackConfig.agent_port}.",
)


def notify_file_option(name: str, read: Callable[[Path], object] = read_recipients) -> Callable[[FC], FC]:
    """Return the option `--notify-file`, whose value is what `read` returns for the file."""
    help_text = "File with the recipients of notices about ends of launches and findings: docs/notices.md."
    return file_option("--notify-file", name, "ZMON_NOTIFY_FILE", read, help_text)


def act_option(name: str, read: Callable[[Path], object]) -> Callable[[FC], FC]:
    """Return the option `--act`, whose value is what `read` returns for the file."""
    help_text = (
        "File with the rules about what zmon does about findings. Rules observe unless they say otherwise: docs/act.md."
    )
    return file_option("--act", name, "ZMON_ACT", read, help_text)


def comma_separated(text: str) -> tuple[str, ...]:
    """Return the words of an option's value such as `gpu, nic`."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


allowed_hosts_option = click.option(
    "--allowed-hosts",
    envvar="ZMON_ALLOWED_HOSTS",
    default="",
    callback=lambda context, option, text: comma_separated(text),
    metavar="NAME,…",
    help="Names with a dot under which clients may ask this daemon, beside the name of this host and names in its "
    "search domains. Addresses and names without a dot are always allowed; others could be web sites.",
)


def url_option(flag: str, variable: str, part: str, default: str, of_stack: bool = True) -> Callable[[FC], FC]:
    """Return an option with the URL of a part.

    `of_stack`: if the option is not given, its value is None, and the command looks the URL up with `stack_url`.
    """
    rule = f" Default: the URL that zmon up with this --data-dir uses, otherwise {default}." if of_stack else ""
    return click.option(
        flag,
        envvar=variable,
        default=None if of_stack else default,
        show_default=not of_stack,
        metavar="URL",
        help=f"URL of {part}.{rule}",
    )


def stack_url(data_dir: Path, name: str) -> str | None:
    """Return the URL of a part of the stack that `zmon up` runs on this machine; None if none runs."""
    try:
        return str(json.loads((data_dir / "stack.json").read_text())[name])
    except (OSError, ValueError, KeyError):
        return None


hub_option = url_option("--hub", "ZMON_HUB_URL", "the hub", HUB_URL)
HTTP_CONFIG_HELP = (
    "Password, token or certificate with which servers are asked: sections agents, hub, prometheus, with the keys of "
    "Prometheus' http_config."
)


def http_config_option(server: Server) -> Callable[[FC], FC]:
    """Return the option `--http-config` of a command that asks one kind of server. Its value is one HttpConfig."""

    def read(path: Path) -> object:
        return getattr(read_http_config(path, server), server)

    return file_option("--http-config", "http", VARIABLE, read, HTTP_CONFIG_HELP)


def http_configs_option(*servers: Server) -> Callable[[FC], FC]:
    """Return the option `--http-config` of a command that asks these servers. Its value is a ClientConfig."""

    def read(path: Path) -> object:
        return read_http_config(path, *servers)

    return file_option("--http-config", "http", VARIABLE, read, HTTP_CONFIG_HELP)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def port_option(default: int) -> Callable[[FC], FC]:
    return click.option(
        "--port", type=click.IntRange(1, 65535), default=default, show_default=True, help="Port to listen on."
    )


@dataclass(frozen=True)
class HubOptions:
    """The values of the options of a command that asks the hub."""

    hub: str | None
    data_dir: Path
    http: HttpConfig | None

    @property
    def url(self) -> str:
        """The URL of the hub. Without --hub it is looked up each time, because `zmon up` may start later."""
        return self.hub or stack_url(self.data_dir, "hub") or HUB_URL


hub_options = grouped_options("hub", HubOptions, data_dir_option, hub_option, http_config_option("hub"))
