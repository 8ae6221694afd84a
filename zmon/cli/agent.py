"""`zmon agent`: run the agent of this node."""

from __future__ import annotations

import pwd
from pathlib import Path

import click

from zmon.agent import Agent, AgentConfig
from zmon.agent.sources.pods import PodSource
from zmon.box.roots import POD_VOLUME
from zmon.cli.daemon import Listening, listening_options, serve
from zmon.cli.options import allowed_hosts_option, box_dir_option, comma_separated, data_dir_option, host_option
from zmon.cli.thresholds import leases_option
from zmon.errors import UsageError
from zmon.job.lease import Leases
from zmon.schema.limits import host_name
from zmon.stack import StackConfig
from zmon.web.kubernetes.api_server import in_cluster


@click.command()
@listening_options(StackConfig.agent_port)
@box_dir_option
@click.option(
    "--pods-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="ZMON_PODS_DIR",
    metavar="PATH",
    help="On Kubernetes, the directory of a kubelet's pods. Boxes in their emptyDir volumes called "
    f"{POD_VOLUME} are read as well.",
)
@click.option(
    "--pods-of-node",
    "node",
    envvar="ZMON_PODS_OF_NODE",
    default="",
    metavar="NODE",
    help="On Kubernetes, the name of this node. The API server is asked which of its pods hold GPUs, to find those in "
    "which nothing runs. The service account needs the right to list the pods of the cluster.",
)
@host_option
@data_dir_option
@click.option(
    "--without",
    envvar="ZMON_WITHOUT",
    default="",
    metavar="NAME,…",
    help="Sources to disable, for example gpu,nic,steps.",
)
@click.option(
    "--hub-user",
    "hub_users",
    envvar="ZMON_HUB_USER",
    default="",
    metavar="NAME,…",
    help="Users who may read the stacks and the stderr of all ranks, and ask for acts, beside root and the user of the "
    "agent.",
)
@click.option(
    "--allow-actions",
    is_flag=True,
    envvar="ZMON_ALLOW_ACTIONS",
    help="Let hubs ask for acts: end a rank, or the launcher of a rank. The agent decides, and writes an audit log.",
)
@click.option(
    "--max-series",
    envvar="ZMON_MAX_SERIES",
    type=click.IntRange(1000),
    metavar="N",
    help="The sample_limit of Prometheus. If /metrics would have more series, metrics of ranks are left out.",
)
@leases_option
@allowed_hosts_option
def agent(
    listening: Listening,
    box_dir: Path | None,
    pods_dir: Path | None,
    node: str,
    host: str,
    data_dir: Path,
    without: str,
    hub_users: str,
    allow_actions: bool,
    max_series: int | None,
    leases: Leases,
    allowed_hosts: tuple[str, ...],
) -> None:
    """Run the agent: watch the ranks and the hardware of this node."""
    config = AgentConfig(
        box_dir,
        host_name(host),
        pods_dir=pods_dir,
        pods=PodSource(in_cluster(), node) if node else None,
        data_dir=data_dir,
        without=frozenset(comma_separated(without)),
        hub_users=frozenset(map(_uid, comma_separated(hub_users))),
        allow_actions=allow_actions,
        leases=leases,
        max_series=max_series,
        allowed_hosts=allowed_hosts,
        web=listening.web_config,
    )
    serve("agent", listening, lambda: Agent(config).app(), config.reserved_files)


def _uid(name: str) -> int:
    """Return the uid of a user, given by name or number. Raises UsageError."""
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise UsageError(f"no user is called {name}", "", "Correct the names in --hub-user") from None
