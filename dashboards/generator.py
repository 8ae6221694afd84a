"""The command line that the generators of rules and of Grafana dashboards have in common."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from dashboards.intervals import Intervals
from zmon.schema.scraping import LONGEST_SECONDS, duration_seconds, duration_text


def _scrape_interval(context: click.Context, option: click.Parameter, text: str) -> int:
    """Return a scrape interval in whole seconds, written as in prometheus.yml. Raises BadParameter."""
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", context, option) from error
    if not seconds.is_integer() or not 1 <= seconds <= LONGEST_SECONDS:
        message = f"{text} is not a whole number of seconds from 1s to {LONGEST_SECONDS}s."
        raise click.BadParameter(message, context, option)
    return int(seconds)


def run(
    program: str, description: str, files: Callable[..., dict[str, str]], options: Sequence[click.Option] = ()
) -> None:
    """Parse the command line of `program` and write its files. An error is one line on stderr, and exit code 2.

    `files` returns the text of each file, by name, from the intervals and the values of `options`, which this command
    has besides `--agents`, `--hub` and `--out`.
    """

    @click.command(help=description, context_settings={"help_option_names": ["-h", "--help"]})
    @click.option("--agents", callback=_scrape_interval, required=True, help="Scrape interval of agents, such as 15s.")
    @click.option("--hub", callback=_scrape_interval, required=True, help="Scrape interval of hubs, such as 2s.")
    @click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        metavar="DIR",
        help="Directory for the files; it is created, and files of the same names are replaced.",
    )
    def command(agents: int, hub: int, out: Path, **values: object) -> None:
        write(files(Intervals(agents, hub), **values), out)
        made_for = f"agents scraped every {duration_text(agents)} and hubs scraped every {duration_text(hub)}"
        click.echo(f"{out}: files for {made_for}, or more often")

    command.params.extend(options)
    try:
        command(prog_name=program, standalone_mode=False)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.ClickException as error:
        click.echo(f"{program}: {error.format_message()} See {program} --help", err=True)
        sys.exit(2)
    except OSError as error:
        click.echo(f"{program}: cannot write {error.filename}: {error.strerror}. Choose another --out", err=True)
        sys.exit(2)


def write(files: dict[str, str], folder: Path) -> None:
    """Write these texts, by name of the file, into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
