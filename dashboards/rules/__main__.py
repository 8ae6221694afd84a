"""Make the alert and recording rules for other scrape intervals, and for the labels of jobs that alerts carry.

python -m dashboards.rules --agents 30s --hub 30s --out DIR [--alert-labels NAME,…] [--sharded]
"""

import click

from dashboards.generator import run
from dashboards.intervals import Intervals
from dashboards.rules.render import rendered, sharded
from zmon.metrics.alert_labels import name_problem


def _names(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    """Return the names of labels, as `zmon hub --alert-labels` takes them. Raises BadParameter."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if problem := name_problem(name):
            raise click.BadParameter(f"{problem}.", context, option)
    return names


def _files(intervals: Intervals, is_sharded: bool, alert_labels: tuple[str, ...]) -> dict[str, str]:
    return (sharded if is_sharded else rendered)(intervals, alert_labels)


if __name__ == "__main__":
    run(
        "python -m dashboards.rules",
        "Write the alert and recording rules for these scrape intervals.",
        _files,
        [
            click.Option(
                ["--sharded", "is_sharded"],
                is_flag=True,
                help="Files for several Prometheus servers, each with a shard of the agents, and for vmalert.",
            ),
            click.Option(
                ["--alert-labels"],
                callback=_names,
                default="",
                metavar="NAME,…",
                help="Names in zmon hub --alert-labels: alerts on findings carry these labels of their jobs.",
            ),
        ],
    )
