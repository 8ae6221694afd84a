"""Options that several subcommands share, and the default URLs of the daemons."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import click
import platformdirs

from zmon.stack import StackConfig

AGENT_URL = f"http://127.0.0.1:{StackConfig.agent_port}"
HUB_URL = f"http://127.0.0.1:{StackConfig.hub_port}"
PROMETHEUS_URL = f"http://127.0.0.1:{StackConfig.prometheus_port}"


def url_help(part: str, default: str) -> str:
    """Return the help text of an option that takes the URL of a part of the stack."""
    return f"URL of {part}. Default: the URL that zmon up with this --data-dir uses, otherwise {default}."


data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="ZMON_DATA_DIR",
    default=Path(platformdirs.user_state_dir("zmon")),
    show_default=True,
    help="Directory of findings, incidents, step log, baselines, time accounts, drill sessions, Prometheus history and "
    "logs.",
)
box_dir_option = click.option(
    "--box-dir",
    type=click.Path(path_type=Path, file_okay=False, readable=False),
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
public_option = click.option("--public", is_flag=True, help="Allow a --bind address that other machines can reach.")


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
webhook_option = click.option(
    "--webhook", envvar="ZMON_WEBHOOK", metavar="URL", help="URL of the webhook that Alertmanager sends alerts to."
)
warnings_option = click.option(
    "--webhook-warnings",
    envvar="ZMON_WEBHOOK_WARNINGS",
    metavar="URL",
    help="URL of the webhook for alerts of severity warning. Default: the URL of --webhook.",
)
hub_option = click.option(
    "--hub",
    envvar="ZMON_HUB_URL",
    metavar="URL",
    help=url_help("the hub", HUB_URL),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def port_option(default: int) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """Return the option `--port` of a daemon."""
    return click.option(
        "--port", type=click.IntRange(1, 65535), default=default, show_default=True, help="Port to listen on."
    )


def stack_url(data_dir: Path, name: str) -> str | None:
    """Return the URL of a part of the stack that runs on this machine, or None."""
    try:
        return str(json.loads((data_dir / "stack.json").read_text())[name])
    except (OSError, ValueError, KeyError):
        return None
