"""Kills an agent at every step of an act: `python -m tests.hostile.act_crash_points FOLDER ACT` prints what went wrong.

A child process acts on a real job, and is killed at one call that changes a file or sends a signal. The next child gets
the same request, as the next agent does. This is repeated for all calls (`crash_everywhere`), each with a job of its
own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.agent.acts.jobs import LaunchedJob
from tests.hostile.crashing import DONE, SEND_SIGNAL, CrashPoint, Say, crash_everywhere, in_child, killed_at
from zmon.agent.acts import Acts
from zmon.agent.acts.ledger import FILE
from zmon.agent.sources.boxes import Boxes
from zmon.schema.act import ACTED, KILL_CULPRIT, REFUSED, ActRequest


def audited_signals(ledger: Path, say: Say) -> Callable[..., None]:
    """Return a function that sends a signal like `pidfd_send_signal`.

    It says which signal, to which process, and whether the last whole line of the ledger announces it.
    """
    send = signal.pidfd_send_signal

    def send_and_say(fd: int, number: int, *rest: Any) -> None:
        pid = re.search(r"^Pid:\s*(\d+)", Path(f"/proc/self/fdinfo/{fd}").read_text(), re.M)
        what = f"{signal.Signals(number).name} to process {pid[1] if pid else '?'},"
        last = [{"event": "", "line": ""}, *entries(ledger)][-1]
        is_audited = last["event"] in ("announced", "signal") and last["line"].startswith(what)
        say(f"{'audited' if is_audited else 'unaudited'} {what}")
        send(fd, number, *rest)

    return send_and_say


def act(folder: Path, request: ActRequest, say: Say) -> None:
    """Decide the request as an agent does, and wait for the end of what follows."""
    boxes = Boxes(folder / "boxes", "node-a")
    boxes.scan()
    deadline = time.monotonic() + 20.0

    def ask(question: Callable[[Boxes], Any]) -> Any:
        boxes.scan()
        return question(boxes)

    answer = asyncio.run(Acts(folder / "data", "node-a", ask).answer(request))
    say(f"answer {answer.result} {answer.repeated} {answer.reason}")
    if request.act != KILL_CULPRIT and answer.result == ACTED and not answer.repeated:
        while '"finished"' not in (folder / "data" / FILE).read_text() and time.monotonic() < deadline:
            time.sleep(0.02)


def run(folder: Path, request: ActRequest, point: CrashPoint | None) -> tuple[int, list[str]]:
    """Act in a child; return its exit status and the lines that it said. `point`: where it is killed; None: nowhere."""

    def act_until_crash(say: Say) -> None:
        send, check = audited_signals(folder / "data" / FILE, say), signal.pidfd_send_signal
        if point is not None:
            send = point.counted(SEND_SIGNAL, send)

        def send_or_check(fd: int, number: int, *rest: Any) -> None:
            if number == 0:  # no signal is sent: it asks whether the process lives
                check(fd, number, *rest)
            else:
                send(fd, number, *rest)

        signal.pidfd_send_signal = send_or_check
        act(folder, request, say)

    return in_child(act_until_crash, point)


def entries(ledger: Path) -> list[dict[str, Any]]:
    """Return the lines of the ledger, without those that a kill tore."""
    lines = ledger.read_bytes().split(b"\n")[:-1] if ledger.exists() else []
    whole = []
    for line in filter(None, lines):
        with contextlib.suppress(ValueError):
            whole.append(json.loads(line))
    return whole


def events(folder: Path) -> list[str]:
    """Return the events of the ledger."""
    return [entry["event"] for entry in entries(folder / "data" / FILE)]


def expected_answer(events_before: list[str]) -> str:
    """Return how the next agent must answer, by the events that the first one has written."""
    if "done" in events_before:
        return f"answer {ACTED} True"
    if "announced" in events_before:
        return f"answer {REFUSED} True an earlier request was interrupted"
    return f"answer {ACTED} False"


def problems_of(folder: Path, request: ActRequest, first: list[str]) -> list[str]:
    """Ask the next agent, and return a line for each thing that was done twice or without its audit.

    `first`: the lines of the agent that was killed.
    """
    before = events(folder)
    status, second = run(folder, request, None)
    expected = expected_answer(before)
    first_signals, second_signals = signals_in(first), signals_in(second)
    answers = [line for line in second if line.startswith("answer ")]
    problems = [f"{line} instead of {expected}" for line in answers if not line.startswith(expected)]
    problems += [line for line in first_signals + second_signals if line.startswith("unaudited")]
    problems += [f"twice: {line}" for line in second_signals if line in first_signals]
    if status != DONE:
        problems.append(f"the next agent ends with {status}")
    if "announced" in before and second_signals:
        problems.append(f"the next agent went on: {second_signals}")
    is_over = "finished" in before or (request.act == KILL_CULPRIT and "done" in before)
    if "announced" in before and not is_over and "interrupted" not in events(folder):
        problems.append("the ledger does not say that the act was interrupted")
    return problems


def signals_in(lines: list[str]) -> list[str]:
    """Return the lines about signals."""
    return [line for line in lines if line.startswith(("audited", "unaudited"))]


def request_about_rank(folder: Path, act_name: str) -> ActRequest:
    """Return a request about the only rank with a box in this folder."""
    boxes = Boxes(folder, "node-a")
    boxes.scan()
    ((_, rank),) = boxes.ranks()
    boxes.close()
    return ActRequest(
        act=act_name, job_id="job", rank=0, run_uid=rank.run_uid, intent="i", reason="r", grace_seconds=1.0
    )


def main() -> None:
    """Crash at every point; print the numbers of points and of signals without a crash, and the problems, as JSON."""
    folder, act_name = Path(sys.argv[1]), sys.argv[2]
    problems: list[str] = []
    num_signals = 0

    def attempt(place: Path, point: CrashPoint) -> int:
        nonlocal num_signals
        job = LaunchedJob(place / "boxes", STUBBORN="1")
        try:
            request = request_about_rank(place / "boxes", act_name)
            status, lines = run(place, request, point)
            if status != DONE and killed_at(status) is None:
                problems.append(f"{place.name}: the act ends with {status}")
            num_signals = max(num_signals, len(signals_in(lines)))
            problems.extend(f"{place.name}: {problem}" for problem in problems_of(place, request, lines))
        finally:
            job.end()
        return status

    num_points = crash_everywhere(folder, attempt)
    print(json.dumps({"points": num_points.total(), "signals": num_signals, "problems": problems}))


if __name__ == "__main__":
    main()
