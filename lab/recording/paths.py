"""Replace the folders of the machine that recorded by names that mean something to others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def with_paths(recorded: T, names: Mapping[str, str]) -> T:
    """Return what was recorded with these beginnings of paths replaced in all texts."""

    def replaced(value: Any) -> Any:
        if isinstance(value, str):
            for folder, name in names.items():
                value = value.replace(folder, name)
            return value
        if isinstance(value, dict):
            return {key: replaced(item) for key, item in value.items()}
        return [replaced(item) for item in value] if isinstance(value, list | tuple) else value

    plain = msgspec.to_builtins(recorded, builtin_types=(bytes,))
    return msgspec.convert(replaced(plain), type(recorded))
