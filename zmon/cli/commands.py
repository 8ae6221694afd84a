"""The subcommands of `zmon` by name. The module of each is imported when the command is used.

An agent runs on a node whose cores and memory belong to a job, so it must not load what only hub and analysis need.
Commands of the laboratory are entry points of another distribution, which may not be installed. Entry points are read
only for such a command, and for the list of all commands.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

import click

from zmon.errors import LABORATORY_DISTRIBUTION, UsageError

_NAMESAKES = (  # each has the name of its module
    "act", "agent", "analyze", "check", "completion", "dashboard", "demo", "doctor", "ends", "hub", "incident", "mcp",
    "notify", "status", "steps", "top", "up",
)  # fmt: skip
_OWN_COMMANDS = {  # name → module in this package, and the command in it
    **{name: f"{name}:{name}" for name in _NAMESAKES},
    **{name: f"{name}:{name}_command" for name in ("compare", "predict", "run", "watch")},
}
LABORATORY_COMMANDS = ("scaling", "bench-comm", "bench-peak", "drill")
_GROUP = "zmon.commands"  # of entry points


class Commands(Mapping[str, click.Command]):
    """All subcommands by name."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        """Return a command, and import its module if this is the first use.

        Raises UsageError if the laboratory has the command and is not installed, and KeyError if there is no such
        command.
        """
        if name not in self._loaded:
            if self.is_missing(name):
                why = f"the package {LABORATORY_DISTRIBUTION} has this command"
                next_step = f"Install it with {sys.executable} -m pip install, as in docs/deploy/packages.md"
                raise UsageError(f"zmon {name} is not installed", why, next_step)
            is_own = name not in LABORATORY_COMMANDS
            place = f"zmon.cli.{_OWN_COMMANDS[name]}" if is_own else _entry_points()[name]
            module, _, attribute = place.partition(":")
            command: click.Command = getattr(import_module(module), attribute)
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    parameter.show_envvar = True
            self._loaded[name] = command
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from _OWN_COMMANDS
        yield from _entry_points()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def is_missing(self, name: str) -> bool:
        """Return True if the laboratory has the command, and the laboratory is not installed."""
        return name in LABORATORY_COMMANDS and name not in _entry_points()


@cache
def _entry_points() -> Mapping[str, str]:
    """Return the commands of the laboratory, if it is installed: name → module, and the command in it."""
    from importlib.metadata import entry_points  # with its packages 4 ms, and no other command needs it

    return {point.name: point.value for point in entry_points(group=_GROUP) if point.name in LABORATORY_COMMANDS}
