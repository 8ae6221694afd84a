"""The subcommands of `zmon` by name. The module of each is imported when the command is used.

An agent runs on a node whose cores and memory belong to a job: it has no use for what hub and analysis need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

import click

_PLACES = {  # name → module in this room, and the command in it
    "run": "run:run_command",
    "demo": "demo:demo",
    "up": "up:up",
    "agent": "agent:agent",
    "hub": "hub:hub",
    "dashboard": "dashboard:dashboard",
    "status": "status:status",
    "top": "top:top",
    "incident": "incident:incident",
    "doctor": "doctor:doctor",
    "check": "check:check",
    "steps": "steps:steps",
    "analyze": "analyze:analyze",
    "compare": "compare:compare_command",
    "scaling": "scaling:scaling_command",
    "bench-comm": "bench_comm:bench_comm_command",
    "bench-peak": "bench_peak:bench_peak_command",
    "predict": "predict:predict_command",
    "drill": "drill:drill",
}


class Commands(Mapping[str, click.Command]):
    """All subcommands by name."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        """Return a command, and import its module if this is the first use."""
        if name not in self._loaded:
            module, _, attribute = _PLACES[name].partition(":")
            command: click.Command = getattr(import_module(f"zmon.cli.{module}"), attribute)
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    parameter.show_envvar = True
            self._loaded[name] = command
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)
