"""The type of options whose value is a mapping, which is YAML in one line, and two of them: thresholds and leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import yaml

from zmon.errors import UsageError
from zmon.job.lease import Leases
from zmon.schema.thresholds import PAGE, build
from zmon.yaml_text import load_yaml


class Settings(click.ParamType[Any]):
    """A click type that makes an object from the settings of a site. Raises UsageError with a dotted key."""

    name = "yaml"

    def __init__(self, make: Callable[[object, str], object], page: str = PAGE) -> None:
        """`make(settings, key)` returns the object. `page`: the page of the documentation about these settings."""
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


def _configured(settings: object) -> object:
    """Return the detectors with the thresholds of a site."""
    from zmon import detectors  # only here: they load numpy, which an agent must not

    return detectors.configured(settings)


detectors_option = click.option(
    "--detectors",
    type=Settings(lambda settings, _: _configured(settings)),
    envvar="ZMON_DETECTORS",
    default="{}",
    metavar="YAML",
    help="Thresholds of the detectors, such as {straggler: {slower_ratio: 0.3}}.",
)
leases_option = click.option(
    "--leases",
    type=Settings(lambda settings, key: build(Leases(), settings, key)),
    envvar="ZMON_LEASES",
    default="{}",
    metavar="YAML",
    help="Leases: how long a rank may go without progress, such as {eval_seconds: 3600}.",
)
