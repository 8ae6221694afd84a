"""The YAML file of `--config`: subcommand → flag → value, each as it would be written on the command line."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from zmon.cli.thresholds import Settings
from zmon.errors import UsageError

T = TypeVar("T")


def read(path: Path, commands: Collection[click.Command]) -> dict[str, dict[str, Any]]:
    """What click takes as defaults: subcommand → parameter → text, or a mapping of thresholds. Raises UsageError."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {path}", str(error).splitlines()[0]) from error
    if not isinstance(loaded, dict):
        raise UsageError(f"cannot use {path}", "it holds no mapping", "write e.g. `hub: {port: 9999}`")
    known = {str(command.name): command for command in commands}
    try:
        return {name: _defaults(name, flags, _one_of(known, name)) for name, flags in loaded.items()}
    except ValueError as error:
        raise UsageError(f"cannot use {path}", str(error)) from error


def _defaults(name: str, flags: Any, command: click.Command) -> dict[str, Any]:
    """Of one subcommand; `ready-file` and `ready_file` are the same flag. Thresholds stay a mapping."""
    if not isinstance(flags, dict | None):
        raise ValueError(f"{name} holds no flags but {flags!r}; write e.g. `hub: {{port: 9999}}`")
    options = [option for option in command.params if isinstance(option, click.Option)]
    by_flag = {flag.removeprefix("--"): option for option in options for flag in option.opts}
    defaults: dict[str, Any] = {}
    for key, value in (flags or {}).items():
        option = _one_of(by_flag, str(key).replace("_", "-"))
        if isinstance(option.type, Settings) and isinstance(value, dict):
            defaults[str(option.name)] = value
            continue
        values = value if isinstance(value, list) and option.multiple else [value]
        if any(isinstance(one, list | dict) for one in values):
            raise ValueError(f"{key} of {name} takes one value, not {value!r}")
        words = [str(one) for one in values if one is not None]
        if words:
            defaults[str(option.name)] = words if option.multiple else words[0]
    return defaults


def _one_of(known: dict[str, T], name: Any) -> T:
    if name not in known:
        raise ValueError(f"it has {name!r}, and there is {', '.join(sorted(known))}")
    return known[name]
