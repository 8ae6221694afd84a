"""YAML of numbers, texts, lists and mappings. A date is text: no key holds one, but a folder may be named like one."""

from typing import Any

import yaml

_DATE = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """PyYAML's loader of plain data, without dates."""

    yaml_implicit_resolvers = {  # noqa: RUF012  the name and type are PyYAML's
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse(text: str) -> Any:
    """Return the value of a YAML text. Raises yaml.YAMLError."""
    try:
        return yaml.load(text, _Loader)
    except ValueError as error:  # a number without digits, such as 0x_
        raise yaml.YAMLError(str(error)) from error
