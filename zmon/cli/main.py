"""The `zmon` command with all subcommands. An error is one line on stderr; misuse has exit code 2."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

import zmon
from zmon.cli import config
from zmon.cli.commands import Commands
from zmon.errors import UsageError, ZmonError

COMMANDS = Commands()


def _load_config(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Use the configuration file, if there is one, for the defaults of all options."""
    if path is not None:
        context.obj = path  # zmon up and zmon demo pass it to the daemons that they start
        defaults = config.read(path, COMMANDS)
        if "detectors" in defaults.get("hub", {}):  # analyze uses the hub's thresholds unless it has its own
            defaults["analyze"] = {"detectors": defaults["hub"]["detectors"], **defaults.get("analyze", {})}
        context.default_map = defaults


class _Zmon(click.Group):
    """The group of all subcommands. Its help ends with the folder of docs/."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write where the pages of docs/ are."""
        from zmon.stack import manual  # imports the whole stack, which takes longer than most commands

        self.epilog = f"\b\nPages such as docs/runbooks.md are in {manual.folder()}."
        super().format_epilog(ctx, formatter)


@click.group(cls=_Zmon, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(zmon.__version__, prog_name="zmon")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="ZMON_CONFIG",
    callback=_load_config,
    expose_value=False,
    help="Path of the configuration file: YAML with options per command.",
)
def cli() -> None:
    """Monitor synchronous distributed training: which rank stalls or slows a job, why, and what it costs.

    Exit codes: 0 success, 1 failure, 2 misuse. If a command gives them another meaning, its help says so.
    """


def main() -> None:
    """Run the command line; print an error as one line on stderr."""
    try:
        cli(prog_name="zmon", standalone_mode=False)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.Abort:
        sys.exit(128 + signal.SIGINT)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        _fail(f"{error.format_message()} See {context.command_path if context else 'zmon'} --help", 2)
    except UsageError as error:
        _fail(str(error), 2)
    except ZmonError as error:
        _fail(str(error), 1)
    except PermissionError as error:  # a daemon lets only its own user read what jobs print
        _fail(str(UsageError(str(error), "", "Run zmon as the user who owns it")), 2)


def _fail(line: str, exit_code: int) -> NoReturn:
    """Print a line on stderr, with the paths that pages of docs/ have on this machine, and exit."""
    from zmon.stack import manual

    click.echo(f"zmon: {manual.with_paths(line)}", err=True)
    sys.exit(exit_code)
