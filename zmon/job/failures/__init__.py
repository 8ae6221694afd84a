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
    KERNEL,
    KERNEL_HINTS,
    LAUNCHER_WARNINGS,
    LOST_PEERS,
    PROCESS_ENDS,
    SCHEDULER,
    Answer,
    by_lines,
    by_status,
    by_texts,
)
from zmon.job.failures.exceptions import class_of, root_of
from zmon.job.failures.output import Line, cleaned, training_end
from zmon.job.failures.raised import Raised, printed_exceptions
from zmon.job.failures.texts import TEXTS
from zmon.schema.rank import LastWords

_MAX_CLUE = 200  # characters
_LINES_BEFORE = 8  # lines before a traceback, in which a logger may say why
_MAX_EXCEPTIONS = 30  # the last ones, of all ranks that print to the same place
_LAST_LINES = 10  # lines at the end, in which a message counts without the type of an exception


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


def classify(clues: Clues) -> Failure:
    """Return the class of a failure: what is certain decides first, then exceptions, ends of processes, the status."""
    answer = next(filter(None, _answers(clues)), Answer(UNKNOWN, ""))
    return Failure(answer.name, plain(answer.clue.strip())[:_MAX_CLUE], BY_NAME[answer.name].next_step)


def _answers(clues: Clues) -> Iterator[Answer | None]:
    """Yield what each clue says, the most certain one first.

    A lost connection, a timeout or a signal may follow from the failure of another rank, so any other exception that
    ended the same launch comes before it.
    """
    lines = cleaned(clues.output)
    first_fatal = training_end(lines)
    fatal = [line for line in lines if line.number >= first_fatal]
    words = clues.last_words
    by_scheduler = by_lines(SCHEDULER, fatal, with_warnings=True)
    yield by_texts(KERNEL, clues.kernel_log)
    yield by_lines(CERTAIN, fatal)
    if words is not None and words.kind == "signal":
        sender = f" from process {words.sender_pid}" if words.sender_pid else ""
        yield by_scheduler or Answer("killed", f"{words.type}{sender}")
    exceptions = [item for item in reversed(printed_exceptions(lines)) if item.number >= first_fatal][:_MAX_EXCEPTIONS]
    exceptions.sort(key=lambda item: item.is_aside)  # those that ended a process come first
    if words is not None and words.kind == "exception":
        exceptions.insert(0, _of_last_words(words))
    answers = [answer for item in exceptions if (answer := _by_exception(item, lines)) is not None]
    yield from (answer for answer in answers if answer.name not in CONSEQUENCES)
    yield by_scheduler
    if answers and answers[0].name == "connection_lost":
        yield by_lines(BREAKING, fatal)
    yield from answers
    yield by_lines(PROCESS_ENDS, fatal)
    yield by_lines(LAUNCHER_WARNINGS, fatal, with_warnings=True)
    yield by_texts(KERNEL_HINTS, clues.kernel_log)
    yield by_status(clues.exit_status)
    yield by_lines(TEXTS, fatal[-_LAST_LINES:])
    yield by_lines(LOST_PEERS, fatal, with_warnings=True)
    yield from (_by_inner_type(item) for item in exceptions if item.inner)


def _by_exception(item: Raised, lines: Sequence[Line]) -> Answer | None:
    """Return the class that an exception shows; None for a launcher's, which only reports the end of another process.

    An exception that says nothing may have been raised because of an error that a logger reported right before.
    """
    if item.is_wrapper and all(cause.is_wrapper for cause in item.causes):
        return None
    name, link = root_of(item)
    if name == "code_error" and not link.quotes_code:
        errors = [line for line in lines[max(0, item.start - _LINES_BEFORE) : max(0, item.start)] if line.is_error]
        if by_logger := by_lines(TEXTS, errors):
            return by_logger
    return Answer(name, link.text.partition("\n")[0])


def _by_inner_type(item: Raised) -> Answer | None:
    """Return the class that the type inside a wrapper shows without a text; None for a type that may mean anything."""
    inner = Raised(item.inner, "", item.number)
    name = class_of(inner)
    return None if name == "code_error" and not inner.quotes_code else Answer(name, f"{item.type}({item.inner})")


def _of_last_words(words: LastWords) -> Raised:
    """Return the exception of a rank's last words, with the first one of its chain."""
    type_name, _, message = words.root.partition(": ")
    causes = (Raised(type_name, message, 0),) if words.root else ()
    return Raised(words.type.removeprefix("builtins."), words.message, 0, causes=causes)
