"""Options that several subcommands share, and where the daemons are found."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import click
import platformdirs

from zmon.box import DEFAULT_ROOT
from zmon.stack import StackConfig

PORT = click.IntRange(1, 65535)
AGENT_URL = f"http://127.0.0.1:{StackConfig.agent_port}"
HUB_URL = f"http://127.0.0.1:{StackConfig.hub_port}"
PROMETHEUS_URL = f"http://127.0.0.1:{StackConfig.prometheus_port}"

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
warnings_option = click.option(
    "--webhook-warnings",
    envvar="ZMON_WEBHOOK_WARNINGS",
    help="URL for those that need not wake anybody; without it they go to --webhook as well.",
)


def stack_url(data_dir: Path, name: str) -> str | None:
    """Where a stack that runs on this machine left word of its parts."""
    try:
        return str(json.loads((data_dir / "stack.json").read_text())[name])
    except (OSError, ValueError, KeyError):
        return None
