"""Reads YAML that a person wrote: a key that is given twice is an error, so that nothing is lost without a word."""

from __future__ import annotations

from typing import Any

import yaml


def load_yaml(text: str | bytes) -> Any:
    """Return the content of the text. Raises YAMLError, or ValueError for a date that does not exist."""
    return yaml.load(text, _UniqueKeys)


def yaml_reason(error: yaml.YAMLError) -> str:
    """Return the reason of an error without the text of the file, which may hold a password."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or type(error).__name__
    return f"{problem}, in line {mark.line + 1}" if mark is not None else str(problem)


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that is given twice, as exporter-toolkit does. Otherwise the first one would be lost."""

    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        # Nodes by id. An alias flattens its mapping a second time, when the merged keys are already in it.
        self._checked: dict[int, yaml.MappingNode] = {}

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Check the keys of a mapping before those of `<<: *default` are merged into it."""
        if id(node) not in self._checked:
            self._checked[id(node)] = node
            known: list[object] = []  # a key may be a list, which no set takes
            for key_node in (key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"):
                key = self.construct_object(key_node, deep=True)
                if key in known:
                    raise yaml.constructor.ConstructorError(None, None, f"{key} is given twice", key_node.start_mark)
                known.append(key)
        super().flatten_mapping(node)
