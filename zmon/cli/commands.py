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

_NAMESAKES = (  # commands whose function has the name of its module
    "act", "agent", "analyze", "check", "completion", "dashboard", "demo", "doctor", "ends", "hub", "incident", "mcp",
    "notify", "status", "steps", "top", "up",
)  # fmt: skip
_OWN_COMMANDS = {  # name → "module:function", as in an entry point
    **{name: f"zmon.cli.{name}:{name}" for name in _NAMESAKES},
    **{name: f"zmon.cli.{name}:{name}_command" for name in ("compare", "predict", "run", "watch")},
}
LABORATORY_COMMANDS = ("scaling", "bench-comm", "bench-peak", "drill")
_GROUP = "zmon.commands"  # the group of the laboratory's entry points


class Commands(Mapping[str, click.Command]):
    """All subcommands by name."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}  # those whose module has been imported, by name

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
            origin = _entry_points()[name] if name in LABORATORY_COMMANDS else _OWN_COMMANDS[name]
            module, _, function = origin.partition(":")
            command: click.Command = getattr(import_module(module), function)
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
    """Return the commands of the laboratory, if it is installed: name → "module:function"."""
    from importlib.metadata import entry_points  # takes 4 ms to import, and no other command needs it

    return {point.name: point.value for point in entry_points(group=_GROUP) if point.name in LABORATORY_COMMANDS}
