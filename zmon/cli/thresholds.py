"""A click type for options whose value is a mapping in YAML, and two such options: `--detectors` and `--leases`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import yaml

from zmon.errors import UsageError
from zmon.job.lease import Leases
from zmon.schema.thresholds import PAGE, build
from zmon.yaml_text import load_yaml


class YamlMapping(click.ParamType[Any]):
    """A click type that builds an object from a YAML mapping. Raises UsageError, which names the dotted key."""

    name = "yaml"

    def __init__(self, make: Callable[[object, str], object], page: str = PAGE) -> None:
        """`make(settings, key)` returns the object. `page`: the page of the documentation that an error names."""
        self._make, self._page = make, page

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Build the object from a mapping or from YAML text. A value that is already built is returned unchanged."""
        key = str(param.name) if param else "settings"
        if not isinstance(value, str | dict):
            return value
        try:
            settings = load_yaml(value) if isinstance(value, str) else value
        except (ValueError, yaml.YAMLError) as error:  # a date such as 2026-02-30 is a ValueError
            flag = f"--{key.replace('_', '-')}"
            reason = str(error).splitlines()[0]
            raise UsageError(f"cannot read {flag}", reason, f"It takes YAML: see {self._page}") from error
        return self._make(settings, key)


def _detectors(settings: object, _key: str) -> object:
    """Return the detectors with the thresholds of a site. Errors name the keys themselves."""
    from zmon import detectors  # not at the top: it loads numpy, which `zmon agent` must not load

    return detectors.configured(settings)


detectors_option = click.option(
    "--detectors",
    type=YamlMapping(_detectors),
    envvar="ZMON_DETECTORS",
    default="{}",
    metavar="YAML",
    help="Thresholds of the detectors, such as {straggler: {slower_ratio: 0.3}}.",
)
leases_option = click.option(
    "--leases",
    type=YamlMapping(lambda settings, key: build(Leases(), settings, key)),
    envvar="ZMON_LEASES",
    default="{}",
    metavar="YAML",
    help="Leases: how long a rank may go without progress, such as {eval_seconds: 3600}.",
)
