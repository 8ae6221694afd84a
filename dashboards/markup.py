"""HTML and Markdown of pages: escaped texts, tables and links. Texts from outside are escaped."""

import re
from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import urlencode

from zmon.format import UNKNOWN


def escaped_html(text: str) -> str:
    """Return the text as HTML: escaped, with text in backticks as code, and with its line breaks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")


def escaped_markdown(text: str) -> str:
    """Return the text as Markdown with all punctuation escaped, so that it contains no picture, link or emphasis."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def unknown_html(what: str, reason: object, test_id: str = "") -> str:
    """Return the HTML of a line about something that is not known, with the reason."""
    attribute = f' data-testid="{test_id}"' if test_id else ""
    return f'<p class="zmon-unknown"{attribute}>{what}: {UNKNOWN}, {escaped_html(str(reason))}</p>'


def heading_html(title: str, unit: str, source: str, source_html: str) -> str:
    """Return the HTML of the title of a chart or table, with its source, such as PromQL, in a part that opens."""
    return (
        f'<div class="zmon-head"><p><strong>{escape(title)}</strong> {escape(unit)}</p>'
        f"<details><summary>{source}</summary>{source_html}</details></div>"
    )


def table_html(test_id: str, heads: Iterable[str], rows: Iterable[str]) -> str:
    """Return the HTML of a table; heads are HTML, and rows come from `row_html`."""
    head = "".join(f"<th>{head}</th>" for head in heads)
    return (
        f'<div class="zmon-table" data-testid="{test_id}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def row_html(cells: Iterable[str], tint: str = "") -> str:
    """Return the row of a table; cells are HTML. With a tint, its first cell is empty and has this colour."""
    first = f'<td style="--tint:{tint}"></td>' if tint else ""
    return f"<tr>{first}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def numbers_html(test_id: str, numbers: Mapping[str, str]) -> str:
    """Return the HTML of large numbers. Labels and numbers are HTML."""
    items = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in numbers.items())
    return f'<dl class="zmon-vitals" data-testid="{test_id}">{items}</dl>'


def link(view: str, params: Mapping[str, str], text: str) -> str:
    """Return the HTML of a link to another view, in the same tab."""
    return f'<a href="{escape(f"{view}?{urlencode(params)}")}" target="_self">{escape(text)}</a>'


def external_link(url: str) -> str:
    """Return the HTML of a link to a page of another server. It opens in a new tab that cannot reach this page."""
    return f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer">{escape(url)}</a>'
