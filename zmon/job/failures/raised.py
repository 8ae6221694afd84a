"""Read the exceptions that a job printed: Python's tracebacks with their chains, and the ends of C++ programs. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from zmon.job.failures.output import Line

_HEADER = re.compile(r"Traceback \(most recent call last\)")
_CAUSE = re.compile(r"The above exception was the direct cause of the following exception")
_CONTEXT = re.compile(r"During handling of the above exception, another exception occurred")
_EXCEPTION = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:\((?P<inner>[\w.]+)\))?(?:: ?(?P<message>.*)|$)")
_ERROR_NAME = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Timeout|Expired|Refused|Fault|Found|Empty|Full|error|timeout"
    r"|NoSuchKey|ArrowInvalid|BadZipFile|BrokenProcessPool|IncompleteRead|StopIteration)(?:$|\()"
)
# A frame, or the carets below its code.
_FRAME = re.compile(r'\s+File "|\s+\S.*in \w+\(|\s*\^+\s*$|\s+at .*:\d+')
_BOX = re.compile(r"[│╭|╰╮╯─+]")  # the border that Rich or an exception group draws
_THROWN = re.compile(r"terminate called after throwing an instance of '(?P<type>[^']+)'")
_WHAT = re.compile(r"\bwhat\(\): +(?P<message>.*)")
_ASIDE_LINES = 3  # lines before a header, in which Python says that it only reports the exception
_WHAT_LINES = 3  # lines from a C++ exception on, in which its message is
_MESSAGE_LINES = 12  # lines of a message that count
_LAST_FRAMES = 60  # lines of frames that count, the innermost ones
_MAX_SPACES_OF_A_KEY = 4  # a sentence has more, and is a message
_ABOUT_CODE = re.compile(
    r"(?:^|\.)(?:(?:Module)?Attribute|Name|Key|UnboundLocal|Index|Type|Syntax|Indentation|Recursion)Error$"
)
_ASIDE = re.compile(
    r"Exception ignored in|Error in (sys\.excepthook|atexit)|Exception in thread|exception was never retrieved"
    r"|--- Logging error ---"
)
_REPORTS_AN_EXIT = re.compile(
    r".*(?:exited|returned|terminated|failed) (?:with )?(?:a )?(?:non-zero )?(?:exit )?(?:code|status)\b"
    r"|.*failed to run (?:torchrun|mpirun|deepspeed|srun)\b"
)
# Launchers and pools that report the end of another process.
_WRAPPERS = re.compile(
    r"(ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException|SignalException|RemoteTraceback"
    r"|RayTaskError|RayActorError|ActorDiedError|WorkerCrashedError|TrainingFailedError|BrokenProcessPool"
    r"|TerminatedWorkerError|SystemExit|RemoteError|JobException|WorkerGroupError|TrainingWorkerError|TuneError)$"
)


@dataclass(frozen=True)
class Raised:
    """One exception that was raised, as it was printed."""

    type: str  # `torch.OutOfMemoryError`; C++: `c10::Error`
    message: str  # its first lines
    number: int  # of its line in the output
    frames: str = ""  # the files of its frames
    start: int = -1  # the line with which its traceback begins; -1: it has none
    causes: tuple[Raised, ...] = field(default=())  # the exceptions before it in its chain, the first one first
    is_handling: bool = False  # it was raised while the last of its causes was handled, maybe by chance
    is_native: bool = False
    inner: str = ""  # the type of the exception that a wrapper reports, without its text
    is_aside: bool = False  # Python reported it and went on: of a thread, a finalizer, an exit handler, a logger

    @property
    def text(self) -> str:
        """Type and message as Python prints them."""
        return f"{self.type}: {self.message}" if self.message else self.type

    @property
    def quotes_code(self) -> bool:
        """True if its text quotes the code, in which any word may be. A key of many words is a message."""
        return _ABOUT_CODE.search(self.type) is not None and not (
            self.type.endswith("KeyError") and self.message.count(" ") > _MAX_SPACES_OF_A_KEY
        )

    @property
    def is_wrapper(self) -> bool:
        """True if it only reports that another process failed."""
        return _WRAPPERS.search(self.type) is not None or _REPORTS_AN_EXIT.match(self.message) is not None


@dataclass
class _Traceback:
    """The lines of a traceback that have been read so far."""

    start: int = -1  # the line of its header; -1: none is open, or its start is cut off
    is_aside: bool = False  # as in `Raised`
    frames: list[str] = field(default_factory=list)
    indent: int | None = None  # of the frames; None: no frame has been read


class _Link(Enum):
    """The way in which the next exception of a chain follows from the last one."""

    CAUSE = auto()  # the next was raised from the last
    CONTEXT = auto()  # the next was raised while the last was handled, maybe by chance
    INSIDE = auto()  # the message of the next quotes the traceback of the last


def printed_exceptions(lines: Sequence[Line]) -> list[Raised]:
    """Return the exceptions in the order in which they were printed, each with the chain before it."""
    streams: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        streams[line.stream].append(line)
    chains = [item for stream in streams.values() for item in _chains(stream)]
    return sorted(chains, key=lambda item: item.number)


def _chains(lines: Sequence[Line]) -> Iterator[Raised]:
    """Yield the last exception of each chain of one rank, with those before it as its causes."""
    last: Raised | None = None
    link: _Link | None = None
    for item in _exceptions_and_links(lines):
        if isinstance(item, _Link):
            link = item
            continue
        if last is not None and link is None and not item.is_native and "Original Traceback" in last.message:
            link = _Link.INSIDE
        if last is not None and link is None:
            yield last
        last = item if last is None or link is None else _linked(last, link, item)
        link = None
    if last is not None:
        yield last


def _linked(last: Raised, link: _Link, item: Raised) -> Raised:
    """Return an exception with the one before it in its chain as its last cause."""
    causes = (*last.causes, replace(last, causes=(), is_handling=False))
    is_aside = item.is_aside or last.is_aside
    return replace(item, causes=causes, is_handling=link is _Link.CONTEXT, is_aside=is_aside)


def _exceptions_and_links(lines: Sequence[Line]) -> Iterator[Raised | _Link]:
    """Yield each exception alone, and between two of them how the second follows, if that was printed."""
    traceback = _Traceback()
    for index, line in enumerate(lines):
        text = line.text
        if _CAUSE.search(text) or _CONTEXT.search(text):
            yield _Link.CAUSE if _CAUSE.search(text) else _Link.CONTEXT
            traceback = _Traceback()
        elif _HEADER.search(text):
            is_aside = any(_ASIDE.search(near.text) for near in lines[max(0, index - _ASIDE_LINES) : index])
            traceback = _Traceback(line.number, is_aside)
        elif match := _THROWN.search(text):
            near_lines = lines[index : index + _WHAT_LINES]
            message = next((m["message"] for near in near_lines if (m := _WHAT.search(near.text))), "")
            yield Raised(match["type"], _message(lines, index + 1, message), line.number, is_native=True)
        elif text.strip() and not _is_frame(text, traceback.indent):
            match = _EXCEPTION.match(text.strip().lstrip("│| "))
            before = lines[index - 1].text if index else ""
            has_frames = traceback.start >= 0 and traceback.frames != []
            if match and (has_frames or _is_bare(match, line, before)):
                frames = "\n".join(traceback.frames[-_LAST_FRAMES:])
                message = _message(lines, index, match["message"] or "")
                yield Raised(
                    match["type"], message, line.number, frames, traceback.start,
                    is_aside=traceback.is_aside, inner=match["inner"] or "",
                )  # fmt: skip
                traceback = _Traceback()
            elif has_frames and not _BOX.match(text.strip()):
                traceback = _Traceback()
        elif text.strip():  # a line inside the traceback
            if traceback.indent is None:
                traceback.indent = len(text) - len(text.lstrip())
            traceback.frames.append(text)


def _is_frame(text: str, indent: int | None) -> bool:
    """Return True for a line inside a traceback: a frame, its code, or a part of a drawn box."""
    depth = len(text) - len(text.lstrip())
    if indent is not None and depth < indent:
        return text.lstrip()[:1] in "│╭╰" and not text.rstrip().endswith(" FAILED")
    return (depth > 0 and (indent is not None or _FRAME.match(text) is not None)) or text.lstrip()[:1] in "│╭╰"


def _is_bare(match: re.Match[str], line: Line, before: str) -> bool:
    """Return True for an exception without a header: of a traceback whose start is cut off, or alone."""
    is_error = _ERROR_NAME.search(match["type"]) is not None and not line.is_warning
    is_start = not line.text[:1].isspace() or _FRAME.match(before) is not None or before.startswith("    ")
    return is_error and is_start and re.search("[A-Z.]", match["type"]) is not None


def _message(lines: Sequence[Line], index: int, first: str) -> str:
    """Return a message with its further lines, up to the next traceback."""
    parts = [first]
    for line in lines[index + 1 : index + _MESSAGE_LINES]:
        if line.level:
            break
        parts.append(line.text)
        if _HEADER.search(line.text) or _CONTEXT.search(line.text) or _CAUSE.search(line.text):
            break
    return "\n".join(parts)
