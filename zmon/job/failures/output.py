"""Clean the lines that a job printed: without colours, and without what launchers and loggers put before them. Pure.

A line has a stream, the part of its prefix that names a rank or process, so that the mixed output of several ranks can
be taken apart again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_TEXT = 1000  # characters of a line that count: patterns take time by the square of the length
_MAX_RAW = 65536  # characters of a line that is drawn again and again
_MAX_PREFIXES = 8  # prefixes nest: Ray's before a logger's before a time

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\[(?:\d{1,2};)?\d{1,2}m")
_STREAM = re.compile(
    r"\[(?:rank|default|node)[ -]?\d+\]:? ?"  # torch, torchrun
    r"|\[\d+(?:,\d+)?\](?:<std(?:err|out)>)?: ?"  # mpirun
    r"|\s{0,4}\d{1,5}: "  # srun -l
    r"|\((?:[\w.:<>]+(?:\(\w*\))? )?pid=\d+(?:, ?ip=[^)]*)?\) ?(?:\[repeated[^\]]*\] ?)?"  # Ray
    r"|(?![\w.]*(?:error|timeout|exit|warning): )(?=[a-z.]*[\d-])[a-z][a-z\d.-]*: (?!line \d)"  # pdsh: the host
    r"|\d{1,3}(?:\.\d{1,3}){3}: "
    r"|\[pod/[^\]]*\] |wandb: |\[?std(?:err|out)\]?:? "
)
_DATE = r"(?:\d{4}[-/]\d\d[-/]\d\d|\d\d[-/]\d\d[-/]\d{2,4})"
_TIME = re.compile(
    rf"[\[(<]?(?:{_DATE}[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[\])>]?[ :|-]*(?=\S)|\[{_DATE}\] *"
    r"|\[\d{3,7}\] (?=\S)"  # the number of a line or a process
)
_LEVEL = re.compile(
    r"\[?(?P<level>DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\]?(?:[ :|-]+|$)"
    r"(?:[\w.]+:(?=\S))?(?: *- )?"
)
_GLOG = re.compile(r"\[?(?P<level>[IWEFC])(?:\d{3,4} [\d:.]+(?: +\d+)?)? +[\w/.<>-]+:\d+\] ?")
_WARNING = re.compile(r"^\S*(warning|NCCL (WARN|INFO)\b)|\b\w+Warning: ", re.IGNORECASE)
_LEVELS_BELOW_ERROR = ("DEBUG", "INFO", "WARN", "WARNING", "I", "W")
_STEP = re.compile(
    r"\b(?:global_?step|step|iter(?:ation)?s?|epoch|batch)\b\W{0,4}(?P<step>\d+)"
    r".{0,200}?(?:loss|\blr\b|\bacc|it/s|s/it|tokens|\btime\b)"
    r"|\d+%\|.*\| *(?P<bar>\d+)/\d+ \["  # tqdm
    r"|^\{['\"](?:train_?|eval_)?loss['\"]: *(?P<loss>[\d.e+-]+)",  # transformers, without the number of the step
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Line:
    """One line of the output of a job."""

    number: int
    stream: str  # the part of the prefix that names a rank; "": none
    text: str  # without prefixes; indentation stays
    is_warning: bool  # its logger or library says that it is no error
    level: str = ""  # of its logger, which also begins a new message; "": none, "-": only a time

    @property
    def is_error(self) -> bool:
        """True if its logger says that it is an error."""
        return self.level in ("ERROR", "CRITICAL", "FATAL", "E", "F")


def cleaned(output: Sequence[str]) -> list[Line]:
    """Return the lines without colours and prefixes."""
    return [_line(number, text) for number, text in enumerate(output)]


def _line(number: int, raw: str) -> Line:
    """Return a line without colours and prefixes; of a progress bar, its longest drawing."""
    text = raw[-_MAX_RAW:].rstrip("\r\n") if "\r" in raw else raw[: 2 * MAX_TEXT].rstrip("\n")
    text = max(text.split("\r"), key=len)  # a progress bar is drawn many times
    text = _COLOUR.sub("", text[: 2 * MAX_TEXT])[:MAX_TEXT]
    stream, level = "", ""
    for _ in range(_MAX_PREFIXES):
        if match := _STREAM.match(text):
            stream += match[0]
        elif match := _LEVEL.match(text) or _GLOG.match(text):
            level = match["level"]
        elif match := _TIME.match(text):
            level = level or "-"
        else:
            break
        text = text[match.end() :]
    is_warning = level in _LEVELS_BELOW_ERROR or _WARNING.search(text) is not None
    return Line(number, stream.strip(), text, is_warning, level)


def training_end(lines: Sequence[Line]) -> int:
    """Return the number of the line from which on at most one further step was reported; 0 if there were no two steps.

    What lies before it did not end the training. One line of progress may follow an error: bars are drawn once more
    when they close, and another rank may finish its step.
    """
    steps = list(_steps(lines))
    last = steps[-1][1] if steps else ""
    return next((number for number, step in reversed(steps) if step != last), 0)


def _steps(lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
    """Yield the number of each line that reports a step, and what identifies the step."""
    for line in lines:
        match = _STEP.search(line.text)
        if match and not line.stream.startswith("wandb"):
            yield line.number, match["step"] or match["bar"] or match["loss"]
