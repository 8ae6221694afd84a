"""What the words of `zmon top` mean."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

WORDS = """\
up, down   choose a job             enter   that job alone, and back
tab        to the next panel        q       quit

jobs       > the chosen one, ! something is wrong with it
           step time: median of its recent steps
           most time in: where its last minute went
findings   worst first; "do" is the next step, for you to run
ranks      ! to blame; "in": its phase, or the collective it is in
           since: for how long it has been there
           self: its own time in the last step, waiting for nobody
           wait: time in collectives that nothing hid
           The slowest self is who the others wait for.

Grey: no news. The first line says since when, and how old it is.
unknown is not zero: nobody has said.
"""


class Help(ModalScreen[None]):
    """Any of q, escape, enter and ? leads back."""

    CSS = """
    Help { align: center middle; }
    Help VerticalScroll { width: 70; height: auto; max-height: 90%; border: round; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("q,escape,question_mark", "dismiss", "back")]

    def compose(self) -> ComposeResult:
        """One page of words."""
        with VerticalScroll():
            yield Static(WORDS, markup=False)
