"""Reads the configuration file of `--config`: YAML that maps subcommand → option → value as on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from zmon.cli.commands import Commands
from zmon.cli.thresholds import YamlMapping
from zmon.errors import UsageError
from zmon.yaml_text import load_yaml

T = TypeVar("T")


def read(path: Path, commands: Commands) -> dict[str, dict[str, Any]]:
    """Return the file as defaults for click: subcommand → parameter → text or mapping of thresholds.

    Options of a command that is not installed are left out, because several machines may share a file. Raises
    UsageError if the file cannot be read or has a key that does not exist.
    """
    try:
        loaded = load_yaml(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {path}", str(error).splitlines()[0]) from error
    if not isinstance(loaded, dict):
        raise UsageError(f"cannot use {path}", "it is not a YAML mapping", "Write for example `hub: {port: 9999}`")
    try:
        return {
            name: _defaults(name, options, _look_up(commands, name))
            for name, options in loaded.items()
            if not commands.is_missing(name)
        }
    except ValueError as error:
        raise UsageError(f"cannot use {path}", str(error)) from error


def _defaults(name: str, values_by_key: Any, command: click.Command) -> dict[str, Any]:
    """Return the defaults of one subcommand. `ready-file` and `ready_file` are the same option.

    Thresholds stay a mapping. Raises ValueError.
    """
    if not isinstance(values_by_key, dict | None):
        example = "write for example `hub: {port: 9999}`"
        raise ValueError(f"{name} takes a mapping of options, not {values_by_key!r}; {example}")
    options = [option for option in command.params if isinstance(option, click.Option)]
    by_flag = {flag.removeprefix("--"): option for option in options for flag in option.opts}
    defaults: dict[str, Any] = {}
    for key, value in (values_by_key or {}).items():
        option = _look_up(by_flag, str(key).replace("_", "-"))
        if isinstance(option.type, YamlMapping) and isinstance(value, dict):
            defaults[str(option.name)] = value
            continue
        values = value if isinstance(value, list) and option.multiple else [value]
        if any(isinstance(item, list | dict) for item in values):
            raise ValueError(f"{key} of {name} takes one value, not {value!r}")
        words = [str(item) for item in values if item is not None]
        if words:
            defaults[str(option.name)] = words if option.multiple else words[0]
    return defaults


def _look_up(by_name: Mapping[str, T], name: Any) -> T:
    """Return the command or option of this name. Raises ValueError with all names if there is none."""
    if name not in by_name:
        raise ValueError(f"unknown key {name!r}; the keys are {', '.join(sorted(by_name))}")
    return by_name[name]
