"""Applies changes to a preset: first a YAML file, then --set a.b=c.

This module only assigns values to fields; the dataclasses check them. A value is kept as the text that was written,
until the type of its field is known: YAML itself would read the folder 2024_11_29 as a number. All errors are
ConfigError.
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
    key, equals_sign, text = assignment.partition("=")
    if not equals_sign or not key:
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


def apply_options(
    preset: C, file: str | None, assignments: Iterable[str], other_options: Iterable[Mapping[str, Any]] = ()
) -> C:
    """Return a preset with the changes of a file, then of `--set a.b=c`, then of other options."""
    changes = [read_file(file)] if file is not None else []
    return apply_changes(preset, [*changes, *map(parse_assignment, assignments), *other_options])


def apply_changes(config: C, changes: Iterable[Mapping[str, Any]]) -> C:
    """Return the configuration with these nested changes; later ones override earlier ones.

    The result is checked as a whole, so the order of the changes does not matter for the checks.
    """
    merged: dict[str, Any] = {}
    for change in changes:
        merged = _merge(merged, change)
    result: C = _change(config, merged, prefix="")
    return result


def _merge(values: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values, of which the later ones override the others key by key."""
    merged = dict(values)
    for name, value in later.items():
        old = merged.get(name)
        merged[name] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _change(section: Any, values: Mapping[str, Any], prefix: str) -> Any:
    """Return a section, or the whole configuration, with the named fields replaced and checked again."""
    types = get_type_hints(type(section))
    new = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if name not in types:
            raise ConfigError(f"there is no key {key}", "it is misspelt", f"Use {_nearest(key, section, prefix)}")
        new[name] = _convert(value, getattr(section, name), types[name], key)
    return replace(section, **new)


def _nearest(key: str, section: Any, prefix: str) -> str:
    """Return the keys that are similar to an unknown key. If there are none, return all keys of its section."""
    valid = list(_keys(section, prefix))
    name = key.removeprefix(prefix)
    similar = [candidate for candidate in valid if candidate.rpartition(".")[2] == name]
    similar += get_close_matches(key, valid, n=3)
    if similar:
        return " or ".join(dict.fromkeys(similar))
    return "one of " + ", ".join(f"{prefix}{field.name}" for field in fields(section))


def _keys(section: Any, prefix: str) -> Iterable[str]:
    """Yield the keys of a section, and those of the sections in it."""
    for field in fields(section):
        value = getattr(section, field.name)
        if is_dataclass(value):
            yield from _keys(value, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def _convert(value: Any, old: Any, field_type: Any, key: str) -> Any:
    """Convert a value to the type of its field, whose value so far is `old`."""
    if is_dataclass(old):
        require(isinstance(value, Mapping), key, repr(value), "a section of keys")
        return _change(old, value, f"{key}.")
    types = get_args(field_type) if isinstance(field_type, UnionType) else (field_type,)
    for candidate in types:
        with suppress(ValueError, LookupError, OverflowError):
            return _as_type(candidate, value)
    must = " or ".join(map(_type_name, types))
    raise ConfigError(f"{key} is {value!r}", f"it must be {must}", f"Change it with --set {key}=…")


def _as_type(target: Any, value: Any) -> Any:
    """Return the value as the target type. Raises ValueError, LookupError or OverflowError if it is not of the type."""
    if get_origin(target) is tuple and isinstance(value, list):
        return tuple(_as_type(get_args(target)[0], item) for item in value)
    if isinstance(value, str) and target in _READERS:
        return _READERS[target](value)
    if target is float and type(value) is int:
        return float(value)
    if type(value) is not target:
        raise ValueError
    return value


def _type_name(field_type: Any) -> str:
    if get_origin(field_type) is tuple:
        return f"a list of {'whole ' if get_args(field_type)[0] is int else ''}numbers"
    return _TYPE_NAMES[field_type]
