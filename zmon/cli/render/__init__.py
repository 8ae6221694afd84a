"""The terminal output of the subcommands, one module per subject. Pure: data in, text out. `show` prints it."""

from __future__ import annotations

import click
import msgspec
from rich.console import Console, RenderableType
from rich.table import Column


def show(as_json: bool, answer: object, text: RenderableType) -> None:
    """Print an answer as JSON, or as text for people."""
    if as_json:
        click.echo(msgspec.json.encode(answer).decode())
    else:
        Console(markup=False).print(text)


def number_columns(*names: str, no_wrap: bool = False) -> list[Column]:
    """Return columns for numbers, which are aligned on the right."""
    return [Column(name, justify="right", no_wrap=no_wrap) for name in names]
