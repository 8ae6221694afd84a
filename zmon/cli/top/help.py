"""The help screen of `zmon top`."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

TEXT = """\
up, down   select a job             enter   show only that job, or all
tab        go to the next panel     q       quit

jobs       > selected, ! has findings
           step time: median of the recent steps
           most time in: largest time category of the last minute
findings   worst first; "next" is the step to take
ranks      ! culprit
           phase / op: current phase or collective
           for: time since the rank entered it
           self: self time in the last step (own phases)
           exposed: exposed time in the last step (collectives)
           The others wait for the rank with the longest self time.

Grey: old data. The first line says how old it is.
unknown: no data. It does not mean zero.
"""


class Help(ModalScreen[None]):
    """The help screen; q, escape, enter or ? closes it."""

    CSS = """
    Help { align: center middle; }
    Help VerticalScroll { width: 70; height: auto; max-height: 90%; border: round; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("q,escape,question_mark", "dismiss", "back")]

    def compose(self) -> ComposeResult:
        """Yield the help text."""
        with VerticalScroll():
            yield Static(TEXT, markup=False)
