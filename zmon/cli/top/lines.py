"""A scrollable table under a fixed header. It draws only visible lines, so a thousand ranks cost as much as eight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from zmon.cli.top.panels import Row


class Lines(ScrollView, can_focus=True):
    """A table whose columns are as wide as their longest cell; arrow keys scroll."""

    def __init__(self, columns: Sequence[str], name: str) -> None:
        super().__init__(id=name)
        self._columns = columns
        self._head = ""
        self._lines: list[str] = []  # one for each row
        self._highlighted: list[bool] = []  # for each line

    def show(self, rows: Sequence[Row]) -> None:
        """Replace the rows; the scroll position stays."""
        columns = zip(self._columns, *(row.cells for row in rows), strict=True)
        widths = [max(map(len, column)) for column in columns]

        def line(cells: Sequence[str]) -> str:
            return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

        head, lines = line(self._columns), [line(row.cells) for row in rows]
        highlighted = [row.is_highlighted for row in rows]
        if (head, lines, highlighted) != (self._head, self._lines, self._highlighted):
            self._head, self._lines, self._highlighted = head, lines, highlighted
            self.virtual_size = Size(max(map(len, [head, *lines])), len(lines) + 1)
            self.refresh(layout=True)

    def render_line(self, y: int) -> Strip:
        """Return line `y` of the widget: the header, or a row."""
        row = round(self.scroll_y) + y - 1
        text, style = "", Style()
        if y == 0:
            text, style = self._head, Style(bold=True, underline=self.has_focus)
        elif row < len(self._lines):
            text, style = self._lines[row], Style(bold=self._highlighted[row])
        start = round(self.scroll_x)
        return Strip([Segment(text, self.rich_style + style)]).crop_extend(
            start, start + self.size.width, self.rich_style
        )


class Selectable(Lines):
    """A table with one selected row; arrow keys select another."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.select(-1)", "select a job", key_display="↑↓"),
        Binding("down", "app.select(1)", show=False),
        Binding("pageup", "app.select(-10)", show=False),
        Binding("pagedown", "app.select(10)", show=False),
        Binding("home", "app.select(-10000)", show=False),
        Binding("end", "app.select(10000)", show=False),
    ]

    def scroll_to_row(self, row: int) -> None:
        """Scroll just far enough to show this row."""
        top, height = round(self.scroll_y), max(1, self.size.height - 1)
        if not top <= row < top + height:
            self.scroll_to(y=row if row < top else row - height + 1, animate=False)
