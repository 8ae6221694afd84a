"""Failures: classify why a launch failed, from its last words, its exit status, the kernel's log and its output. Pure.

A class comes only from what ended the process: a warning that the training survived never decides. docs/failures.md
lists the classes, with an example of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zmon.format import plain
from zmon.job.failures.classes import BY_NAME, CONSEQUENCES, UNKNOWN
from zmon.job.failures.endings import (
    BREAKING,
    CERTAIN,
    ENDS,
    EVENTS,
    KERNEL,
    KERNEL_WEAK,
    LOST,
    SCHEDULER,
    of_lines,
    of_status,
    of_texts,
)
from zmon.job.failures.exceptions import class_of, root_of
from zmon.job.failures.output import Line, cleaned, last_steps
from zmon.job.failures.raised import Raised, printed_exceptions
from zmon.job.failures.texts import TEXTS
from zmon.schema.rank import LastWords

_MAX_CLUE = 200  # characters
_LINES_BEFORE = 8  # of a traceback, in which a logger may say why
_EXCEPTIONS = 30  # the last ones, of all ranks that print to the same place
_LAST_LINES = 10  # in which a message alone counts, without the type of an exception


@dataclass(frozen=True)
class Clues:
    """All that is known about the end of a rank."""

    last_words: LastWords | None = None
    exit_status: str | None = None  # "exit code 1", "signal SIGKILL", …; None: unknown
    kernel_log: tuple[str, ...] = ()  # lines of the kernel's log about the process or its device
    output: tuple[str, ...] = ()  # the last lines that it printed, of standard output and error


@dataclass(frozen=True)
class Failure:
    """The class of a failure, as far as its clues show it."""

    name: str  # one of `zmon.job.failures.classes`
    clue: str  # the line that decided; "": none
    next_step: str


Answer = tuple[str, str]  # the name of a class, and the line that decided


def classify(clues: Clues) -> Failure:
    """Return the class of a failure: what is certain decides first, then exceptions, ends of processes, the status."""
    name, clue = next(filter(None, _answers(clues)), (UNKNOWN, ""))
    return Failure(name, plain(clue.strip())[:_MAX_CLUE], BY_NAME[name].next_step)


def _answers(clues: Clues) -> Iterator[Answer | None]:
    """Yield what each clue says, the most certain one first.

    A lost connection, a timeout or a signal may follow from the failure of another rank, so any other exception that
    ended the same launch comes before it.
    """
    lines = cleaned(clues.output)
    last = last_steps(lines)
    fatal = [line for line in lines if line.number >= last]
    words = clues.last_words
    yield of_texts(KERNEL, clues.kernel_log) or of_lines(CERTAIN, fatal)
    if words is not None and words.kind == "signal":
        sender = f" from process {words.sender_pid}" if words.sender_pid else ""
        yield of_lines(SCHEDULER, fatal, warnings=True) or ("killed", f"{words.type}{sender}")
    exceptions = [item for item in reversed(printed_exceptions(lines)) if item.number >= last][:_EXCEPTIONS]
    exceptions.sort(key=lambda item: item.is_aside)  # those that ended a process come first
    answers = [answer for item in (*_of_words(words), *exceptions) if (answer := _answer(item, lines)) is not None]
    yield from (answer for answer in answers if answer[0] not in CONSEQUENCES)
    yield of_lines(SCHEDULER, fatal, warnings=True)
    if answers and answers[0][0] == "connection_lost":
        yield of_lines(BREAKING, fatal)
    yield from answers
    yield of_lines(ENDS, fatal) or of_lines(EVENTS, fatal, warnings=True)
    yield of_texts(KERNEL_WEAK, clues.kernel_log) or of_status(clues.exit_status)
    yield of_lines(TEXTS, fatal[-_LAST_LINES:]) or of_lines(LOST, fatal, warnings=True)
    yield from (_of_type(item) for item in exceptions if item.inner)


def _answer(item: Raised, lines: Sequence[Line]) -> Answer | None:
    """Return what an exception says; None for a launcher's, which only reports that another process ended.

    An exception that says nothing may have been raised because of an error that a logger reported right before.
    """
    if item.is_wrapper and all(cause.is_wrapper for cause in item.causes):
        return None
    name, link = root_of(item)
    if name == "code_error" and not link.quotes_code:
        errors = [line for line in lines[max(0, item.start - _LINES_BEFORE) : max(0, item.start)] if line.is_error]
        if reported := of_lines(TEXTS, errors):
            return reported
    return name, link.text.partition("\n")[0]


def _of_type(item: Raised) -> Answer | None:
    """Return what the type that a wrapper reports says without its text; None for a type of any use."""
    inner = Raised(item.inner, "", item.number)
    name = class_of(inner)
    return None if name == "code_error" and not inner.quotes_code else (name, f"{item.type}({item.inner})")


def _of_words(words: LastWords | None) -> Iterator[Raised]:
    """Yield the exception of a rank's last words, with the first one of its chain."""
    if words is not None and words.kind == "exception":
        kind, _, message = words.root.partition(": ")
        causes = (Raised(kind, message, 0),) if words.root else ()
        yield Raised(words.type.removeprefix("builtins."), words.message, 0, causes=causes)
