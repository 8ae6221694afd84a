"""Applies changes to a preset: first a YAML file, then --set a.b=c.

This module only assigns values to fields. The dataclasses check them. Raises ConfigError. Each value is the text as it
is written, which is read as the type of its field: YAML itself would read the folder 2024_11_29 as a number.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from trainer.config import Config
from trainer.errors import ConfigError, require

C = TypeVar("C", bound=Config)


class _TextLoader(yaml.SafeLoader):
    """Loads YAML with each value as the text that is written; `<<` merges keys, as in all YAML."""

    yaml_implicit_resolvers = {"<": [("tag:yaml.org,2002:merge", re.compile("^<<$"))]}  # noqa: RUF012  PyYAML's name


_READERS: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    bool: lambda text: yaml.SafeLoader.bool_values[text.lower()],
}
_TYPE_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}  # in error lines


def read_file(path: str) -> dict[str, Any]:
    """Return the nested keys and values of a YAML file."""
    try:
        content = yaml.load(Path(path).read_text(), _TextLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}", str(error), "Check the path given with --config") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML", " ".join(str(error).split()), "Fix the file") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} has no keys", "it is not a mapping", "Write it like  train:  {steps: 100}")
    return content


def parse_assignment(assignment: str) -> dict[str, Any]:
    """Parse `a.b=c` into nested keys and a value; c is read as YAML, so [1, 2] is a list."""
    key, equals, text = assignment.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {assignment} is invalid", "it is not KEY=VALUE", "Write --set train.steps=100")
    try:
        value = yaml.load(text, _TextLoader) if text else ""
    except yaml.YAMLError:
        value = text  # valid for a text field; any other field raises an error with its key
    *sections, name = key.split(".")
    change = {name: value}
    for section in reversed(sections):
        change = {section: change}
    return change


def configured(
    preset: C, config: str | None, assignments: Iterable[str], options: Iterable[Mapping[str, Any]] = ()
) -> C:
    """Return a preset with the changes of a file, then of `--set a.b=c`, then of other options."""
    changes = [read_file(config)] if config is not None else []
    return apply_changes(preset, [*changes, *map(parse_assignment, assignments), *options])


def apply_changes(config: C, changes: Iterable[Mapping[str, Any]]) -> C:
    """Return the configuration with these nested changes; later ones override earlier ones.

    The result is checked as a whole, so the order of the changes does not matter for the checks.
    """
    merged: dict[str, Any] = {}
    for change in changes:
        merged = _merge(merged, change)
    changed: C = _change(config, merged, prefix="")
    return changed


def _merge(values: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, value in later.items():
        old = merged.get(name)
        merged[name] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _change(section: Any, values: Mapping[str, Any], prefix: str) -> Any:
    """Return a section, or the whole configuration, with the named fields replaced and checked again."""
    kinds = get_type_hints(type(section))
    new = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if name not in kinds:
            raise ConfigError(f"there is no key {key}", "it is misspelt", f"Use {_nearest(key, section, prefix)}")
        new[name] = _convert(value, getattr(section, name), kinds[name], key)
    return replace(section, **new)


def _nearest(key: str, section: Any, prefix: str) -> str:
    """Return the keys that are similar to an unknown key. If there are none, return all keys of its section."""
    valid = list(_keys(section, prefix))
    name = key.removeprefix(prefix)
    similar = [candidate for candidate in valid if candidate.rpartition(".")[2] == name]
    similar += get_close_matches(key, valid, n=3)
    return " or ".join(dict.fromkeys(similar)) or "one of " + ", ".join(
        f"{prefix}{field.name}" for field in fields(section)
    )


def _keys(section: Any, prefix: str) -> Iterable[str]:
    for field in fields(section):
        value = getattr(section, field.name)
        if is_dataclass(value):
            yield from _keys(value, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def _convert(value: Any, old: Any, kind: Any, key: str) -> Any:
    """Convert a value to the type of its field."""
    if is_dataclass(old):
        require(isinstance(value, Mapping), key, repr(value), "a section of keys")
        return _change(old, value, f"{key}.")
    choices = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    for choice in choices:
        with suppress(ValueError, LookupError, OverflowError):
            return _as_type(choice, value)
    raise ConfigError(
        f"{key} is {value!r}", f"it must be {' or '.join(map(_type_name, choices))}", f"Change it with --set {key}=…"
    )


def _as_type(kind: Any, value: Any) -> Any:
    """Return the value as this type. Raises ValueError or LookupError if it is not of the type."""
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_as_type(get_args(kind)[0], item) for item in value)
    if isinstance(value, str) and kind in _READERS:
        return _READERS[kind](value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError
    return value


def _type_name(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"a list of {'whole ' if get_args(kind)[0] is int else ''}numbers"
    return _TYPE_NAMES[kind]
