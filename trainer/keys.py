"""What people change in a preset: a YAML file, then --set a.b=c, each named by its dotted key.

The dataclasses and their checks live beside their owners; here values only find their field. Raises ConfigError.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import yaml

from trainer.config import Config
from trainer.errors import ConfigError, require

KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}  # as people would call them


def read_file(path: str) -> dict[str, Any]:
    """The nested keys and values of a YAML file."""
    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}", str(error), "Check the path given with --config") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is no YAML", " ".join(str(error).split()), "Mend the file") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds no keys", "it is no mapping", "Write it like  train:  {steps: 100}")
    return content


def parse_assignment(assignment: str) -> dict[str, Any]:
    """`a.b=c` as nested keys and a value; c is read as YAML, so [1, 2] is a list."""
    key, equals, text = assignment.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {assignment}", "there is no key=value in it", "Write --set train.steps=100")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text  # a field that takes text can have it, the others will refuse it by name
    *sections, name = key.split(".")
    change = {name: value}
    for section in reversed(sections):
        change = {section: change}
    return change


def changed(config: Config, changes: Iterable[Mapping[str, Any]]) -> Config:
    """The configuration with these nested changes, later ones winning; checked as a whole, whatever their order."""
    together: dict[str, Any] = {}
    for change in changes:
        together = _merged(together, change)
    changed_config: Config = _change(config, together, prefix="")
    return changed_config


def _merged(values: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, value in later.items():
        old = merged.get(name)
        merged[name] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _change(section: Any, values: Mapping[str, Any], prefix: str) -> Any:
    """A section, or the whole configuration, with the named fields replaced; its own checks run again."""
    kinds = get_type_hints(type(section))
    new = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if name not in kinds:
            raise ConfigError(f"there is no key {key}", "it is misspelt", f"There is {_nearest(key, section, prefix)}")
        new[name] = _converted(value, getattr(section, name), kinds[name], key)
    return replace(section, **new)


def _nearest(key: str, section: Any, prefix: str) -> str:
    """The keys that look like one that there is not; where none does, all of its section."""
    known = list(_keys(section, prefix))
    name = key.removeprefix(prefix)
    alike = [other for other in known if other.rpartition(".")[2] == name]
    alike += get_close_matches(key, known, n=3)
    return ", ".join(dict.fromkeys(alike)) or ", ".join(f"{prefix}{field.name}" for field in fields(section))


def _keys(section: Any, prefix: str) -> Iterable[str]:
    for field in fields(section):
        value = getattr(section, field.name)
        if is_dataclass(value):
            yield from _keys(value, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def _converted(value: Any, old: Any, kind: Any, key: str) -> Any:
    """A value as its field wants it."""
    if is_dataclass(old):
        require(isinstance(value, Mapping), key, repr(value), "a section of keys")
        return _change(old, value, f"{key}.")
    choices = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    for choice in choices:
        with suppress(ValueError):
            return _as(choice, value)
    raise ConfigError(
        f"{key} is {value!r}", f"it must be {' or '.join(map(_called, choices))}", f"Change it with --set {key}=…"
    )


def _as(kind: Any, value: Any) -> Any:
    """Raises ValueError where it is none."""
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_as(get_args(kind)[0], item) for item in value)
    if kind is float and type(value) in (int, str):
        return float(value)  # YAML reads 1e-3 as text
    if kind is str and type(value) is int:
        return str(value)  # the number of a step, for example
    if type(value) is not kind:
        raise ValueError
    return value


def _called(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"a list of {'whole ' if get_args(kind)[0] is int else ''}numbers"
    return KINDS[kind]
