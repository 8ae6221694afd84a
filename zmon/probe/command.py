"""The `zmon` command of the package for jobs: `zmon run`, without the packages that a job's environment lacks.

Its options are those of zmon/cli/run.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

import zmon
from zmon.errors import DISTRIBUTION, PROBE_DISTRIBUTION, UsageError
from zmon.probe.run import JOB_ID_HELP, LABEL_HELP, run

USAGE = "zmon run [--job-id ID] [--label KEY=VALUE]... -- CMD..."


def main() -> NoReturn:
    """Run the command; an error is one line on stderr, with exit code 2."""
    try:
        _command(sys.argv[1:])
    except UsageError as error:
        print(f"zmon: {error}", file=sys.stderr)
        sys.exit(2)


def _command(words: Sequence[str]) -> NoReturn:
    """Do what the first word says, and exit. Raises UsageError."""
    name = words[0] if words else ""
    if name == "run":
        _run(words[1:])
    if name in ("-h", "--help"):
        print(f"usage: {USAGE}\nThis is {PROBE_DISTRIBUTION}, for jobs. {DISTRIBUTION} has the other commands.")
    elif name == "--version":
        print(f"zmon, version {zmon.__version__} ({PROBE_DISTRIBUTION})")
    elif not name or name.startswith("-"):
        raise UsageError("a command is missing", f"{PROBE_DISTRIBUTION} has only `zmon run`", f"Write {USAGE}")
    else:
        raise UsageError(
            f"zmon {name} is not installed",
            f"{PROBE_DISTRIBUTION} has only `zmon run`, and the package {DISTRIBUTION} the other commands",
            "Install that in an environment of its own",
        )
    sys.exit()


def _run(words: Sequence[str]) -> NoReturn:
    """Run the job's command, in place of this process. Raises UsageError."""
    options = _Parser().parse_args(words)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise UsageError("zmon run has no command to run", next_step=f"Write {USAGE}")
    run(command, options.job_id, options.label)


class _Parser(argparse.ArgumentParser):
    """The options of `zmon run`. The command begins at the first word that is not an option of zmon."""

    def __init__(self) -> None:
        description = "Run a torch job under zmon, without changing its code."
        super().__init__("zmon run", USAGE, description, allow_abbrev=False)
        self.add_argument("--job-id", metavar="ID", help=JOB_ID_HELP)
        self.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help=LABEL_HELP)
        self.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD...")

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, which `main` prints as one line."""
        raise UsageError("zmon run cannot start", message, f"Write {USAGE}")
