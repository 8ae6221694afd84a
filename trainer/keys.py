"""Presets, and what people change in them: a YAML file, then --set a.b=c, each named by its dotted key.

The dataclasses and their checks live beside their owners (train.py has the root); here values only find
their field. Raises ConfigError.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from trainer.criteo import CriteoConfig
from trainer.embedding import EmbeddingConfig
from trainer.errors import ConfigError, require
from trainer.model import ModelConfig
from trainer.synthetic import SyntheticConfig
from trainer.train import Config, TrainConfig


def demo() -> Config:
    """Small enough that a step of 4 ranks on 2 cores takes some tens of milliseconds; shaped like Criteo."""
    rows = (20_000, 15_000, 12_000, 10_000, 8_000, 6_000, 5_000, 4_000, 3_000, 2_500, 2_000, 2_000, 1_500)
    return Config(
        train=TrainConfig(),
        model=ModelConfig(),
        embedding=EmbeddingConfig(rows=rows + (1_000,) * 13),
        synthetic=SyntheticConfig(),
        criteo=CriteoConfig(),
    )


PRESETS: dict[str, Callable[[], Config]] = {"demo": demo}

KINDS = {  # of fields, as people would call them
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    tuple[int, ...]: "a list of whole numbers",
}


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
    """The configuration with these nested changes, later ones winning."""
    for change in changes:
        config = _change(config, change, prefix="")
    return config


def _change(section: Any, values: Mapping[str, Any], prefix: str) -> Any:
    """A section, or the whole configuration, with the named fields replaced; its own checks run again."""
    kinds = get_type_hints(type(section))
    new = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if name not in kinds:
            keys = ", ".join(prefix + known for known in kinds)
            raise ConfigError(f"there is no key {key}", "it is misspelt", f"There are {keys}")
        new[name] = _converted(value, getattr(section, name), kinds[name], key)
    return replace(section, **new)


def _converted(value: Any, old: Any, kind: Any, key: str) -> Any:
    """A value as its field wants it."""
    if is_dataclass(old):
        require(isinstance(value, Mapping), key, repr(value), "a section of keys")
        return _change(old, value, f"{key}.")
    if kind is float and type(value) in (int, str):
        with suppress(ValueError):  # YAML reads 1e-3 as text
            return float(value)
    if kind == tuple[int, ...] and isinstance(value, list) and all(type(item) is int for item in value):
        return tuple(value)
    require(type(value) is kind, key, repr(value), KINDS[kind])
    return value
