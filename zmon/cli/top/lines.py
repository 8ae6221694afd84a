"""A table of plain lines under a head that stays: costs what is seen of it, be there eight ranks or a thousand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

Row = tuple[Sequence[str], bool]  # its words, and whether it stands out


class Lines(ScrollView, can_focus=True):
    """Rows in columns as wide as their longest word; arrows scroll."""

    def __init__(self, columns: Sequence[str], name: str) -> None:
        super().__init__(id=name)
        self._columns = columns
        self._lines: list[tuple[str, bool]] = []
        self._head = ""

    def show(self, rows: Sequence[Row]) -> None:
        """These instead of those before; what is scrolled to stays."""
        columns = zip(self._columns, *(words for words, _ in rows), strict=True)
        widths = [max(map(len, column)) for column in columns]

        def line(words: Sequence[str]) -> str:
            return "  ".join(word.ljust(width) for word, width in zip(words, widths, strict=True)).rstrip()

        lines = [(line(words), stands_out) for words, stands_out in rows]
        if (line(self._columns), lines) != (self._head, self._lines):
            self._head, self._lines = line(self._columns), lines
            width = max(len(text) for text, _ in [(self._head, False), *lines])
            self.virtual_size = Size(width, len(lines) + 1)
            self.refresh(layout=True)

    def render_line(self, y: int) -> Strip:
        """One line of the screen: the head, or the row that was scrolled to there."""
        at = round(self.scroll_y) + y - 1
        text, style = "", Style()
        if y == 0:
            text, style = self._head, Style(bold=True, underline=self.has_focus)
        elif at < len(self._lines):
            text, style = self._lines[at][0], Style(bold=self._lines[at][1])
        start = round(self.scroll_x)
        return Strip([Segment(text, self.rich_style + style)]).crop_extend(
            start, start + self.size.width, self.rich_style
        )


class Choice(Lines):
    """Lines of which one is chosen: arrows choose another."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.choose(-1)", "choose a job", key_display="↑↓"),
        Binding("down", "app.choose(1)", show=False),
        Binding("pageup", "app.choose(-10)", show=False),
        Binding("pagedown", "app.choose(10)", show=False),
        Binding("home", "app.choose(-10000)", show=False),
        Binding("end", "app.choose(10000)", show=False),
    ]

    def keep_in_sight(self, row: int) -> None:
        """Scroll as far as is needed to see that row."""
        top, height = round(self.scroll_y), max(1, self.size.height - 1)
        if not top <= row < top + height:
            self.scroll_to(y=row if row < top else row - height + 1, animate=False)
