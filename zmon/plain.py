"""Make text from outside plain, so that it changes neither a terminal, nor a log, nor the direction of a line.

Names, labels, messages, paths and standard error come from jobs, other hosts and the kernel. They may have escape
sequences, line breaks, marks that turn the direction of text around, or bytes that are not UTF-8 (Python reads those as
lone surrogates, which no encoder accepts). Text is made plain where it enters: by the reader of boxes, by errors, by
the agent's evidence, and in the JSON that a daemon receives. Standard library only, because ranks import this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Control characters (C0, DEL, C1), marks of direction, line and paragraph separators, the byte order mark, surrogates.
_MARKS = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_IN_A_LINE = re.compile(f"[\x00-\x1f{_MARKS}]")
_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_MARKS}]")  # all except tab and line feed
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_REPLACEMENT = "\ufffd"
# Keys of JSON whose texts have several lines: messages of exceptions, stacks, the end of standard error.
_LINED_KEYS = "message|root|stack|stderr_tail|text"
_ESCAPE = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
_UNPLAIN = re.compile(rf"{_ESCAPE}|[{_MARKS}]", re.DOTALL)
_LINED_OR_UNPLAIN = re.compile(rf'"(?:{_LINED_KEYS})"\s*:\s*"(?:[^"\\]|\\.)*"|{_ESCAPE}|[{_MARKS}]', re.DOTALL)
_SHORT = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\b": "\b", "\\f": "\f"}
_ESCAPED_LETTER, _SURROGATE_PAIR = 6, 12  # the letters of `\\u0007`, and of a character beyond the first 65,536


def plain(text: str) -> str:
    """Return the text in one line: white space becomes a space, and another control character its code (`\\x1b`)."""
    return text if text.isprintable() and text.isascii() else _IN_A_LINE.sub(_in_a_line, text)


def plain_lines(text: str) -> str:
    """Return the text with its lines and tabs; a carriage return begins a line, and colours are left out."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    return _IN_LINES.sub(_in_lines, text.replace("\r\n", "\n"))


def plain_json(body: bytes, lines: bool = False) -> bytes:
    """Return JSON whose texts are plain. Bytes that are not UTF-8 are replaced; the JSON may be invalid otherwise.

    Texts keep their lines under the keys that have lines, or, with `lines`, under every key. A body without a backslash
    and without letters beyond ASCII, as a healthy agent's, is returned at once: it cannot have a control character.
    """
    if b"\\" not in body and body.isascii() and b"\x7f" not in body:
        return body
    text = body.decode("utf-8", "replace")
    text = _UNPLAIN.sub(_lined_token, text) if lines else _LINED_OR_UNPLAIN.sub(_token, text)
    return text.encode("utf-8", "replace")


def _in_a_line(match: re.Match[str]) -> str:
    letter = match[0]
    return " " if letter in "\t\n\r" else _code(letter)


def _in_lines(match: re.Match[str]) -> str:
    return "\n" if match[0] == "\r" else _code(match[0])


def _code(letter: str) -> str:
    number = ord(letter)
    if 0xD800 <= number <= 0xDFFF:
        return _REPLACEMENT
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _token(match: re.Match[str]) -> str:
    """Return one part of JSON in plain form: a letter, escaped or not, or a key with its text in lines."""
    token = match[0]
    if token[0] != '"':
        return _escaped(token, plain)
    return _UNPLAIN.sub(_lined_token, token)


def _lined_token(match: re.Match[str]) -> str:
    return _escaped(match[0], plain_lines)


def _escaped(token: str, make_plain: Callable[[str], str]) -> str:
    if len(token) == _SURROGATE_PAIR:
        return token
    if len(token) == 1:
        letter = token
    elif len(token) == _ESCAPED_LETTER:
        letter = chr(int(token[2:], 16))
    else:
        letter = _SHORT.get(token, "")
    if not letter:
        return token  # an escaped quote, slash or backslash
    result = make_plain(letter)
    if result == letter:
        return token
    return result.replace("\\", "\\\\").replace("\n", "\\n")
