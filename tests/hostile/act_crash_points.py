"""Kills an agent at every step of an act: `python -m tests.hostile.act_crash_points FOLDER ACT` prints what went wrong.

A child process acts on a real job, and ends itself at its n-th call that changes a file or sends a signal: before it,
or in the middle of the bytes of a write. The next child gets the same request, as the next agent does. This is repeated
for all n, each with a job of its own, and once with n beyond the last call.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.agent.acts.jobs import LaunchedJob
from tests.hostile.crash_points import DONE, KILLED, KILLED_AT_WRITE, CrashPoint, in_child
from zmon.agent.acts import Acts
from zmon.agent.acts.ledger import FILE
from zmon.agent.sources.boxes import Boxes
from zmon.schema.act import ACTED, KILL_CULPRIT, REFUSED, ActRequest

Say = Callable[[str], None]


def audited_signals(ledger: Path, say: Say) -> Callable[[int, int], None]:
    """Return what sends a signal, and says which one, and whether the last whole line of the ledger announces it."""
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
    ends = time.monotonic() + 20.0

    def ask(question: Callable[[Boxes], Any]) -> Any:
        boxes.scan()
        return question(boxes)

    answer = asyncio.run(Acts(folder / "data", "node-a", ask).answer(request))
    say(f"answer {answer.result} {answer.repeated} {answer.reason}")
    if request.act != KILL_CULPRIT and answer.result == ACTED and not answer.repeated:
        while '"finished"' not in (folder / "data" / FILE).read_text() and time.monotonic() < ends:
            time.sleep(0.02)


def run(folder: Path, request: ActRequest, crash: CrashPoint | None) -> tuple[int, list[str]]:
    """Act in a child; return its exit status and what it said."""

    def child(pipe: int) -> None:
        write = os.write

        def say(line: str) -> None:
            write(pipe, f"{line}\n".encode())

        send, check = audited_signals(folder / "data" / FILE, say), signal.pidfd_send_signal
        if crash is not None:
            crash.install()
            send = crash._wrapped("pidfd_send_signal", send)

        def send_or_check(fd: int, number: int, *rest: Any) -> None:
            (send if number else check)(fd, number, *rest)

        signal.pidfd_send_signal = send_or_check
        act(folder, request, say)

    status, text = in_child(child)
    return status, text.decode().splitlines()


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


def problems_of(folder: Path, request: ActRequest, first: list[str]) -> list[str]:
    """Ask the next agent, and return a line for each thing that was done twice or without its audit."""
    before = events(folder)
    status, second = run(folder, request, None)
    answers = [line for line in second if line.startswith("answer ")]
    signals = [[line for line in lines if "audited" in line] for lines in (first, second)]
    expected = f"answer {ACTED} False"
    if "done" in before:
        expected = f"answer {ACTED} True"
    elif "announced" in before:
        expected = f"answer {REFUSED} True an earlier request was interrupted"
    problems = [f"the next agent failed: {status}"] if status != DONE else []
    problems += [f"{line} instead of {expected}" for line in answers if not line.startswith(expected)]
    problems += [line for each in signals for line in each if line.startswith("unaudited")]
    problems += [f"twice: {line}" for line in signals[1] if line in signals[0]]
    if "announced" in before and signals[1]:
        problems.append(f"the next agent went on: {signals[1]}")
    if "announced" in before and "finished" not in before and not ("done" in before and request.act == KILL_CULPRIT):
        problems += [] if "interrupted" in events(folder) else ["the ledger does not say that the act was interrupted"]
    return problems


def main() -> None:
    """Crash at every point; print the number of points and the problems as JSON."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    problems: list[str] = []
    signals = 0
    for number in itertools.count():
        status = None
        for in_the_middle in (False, True):
            if in_the_middle and status != KILLED_AT_WRITE:
                continue
            place = folder / f"{number}-{in_the_middle}"
            job = LaunchedJob(place / "boxes", STUBBORN="1")
            try:
                boxes = Boxes(place / "boxes", "node-a")
                boxes.scan()
                ((_, rank),) = boxes.ranks()
                boxes.close()
                request = ActRequest(
                    act=name, job_id="job", rank=0, run_uid=rank.run_uid, intent="i", reason="r", grace_seconds=1.0
                )
                status, lines = run(place, request, CrashPoint(number, in_the_middle))
                if status not in (DONE, KILLED, KILLED_AT_WRITE):
                    problems.append(f"{place.name}: the act failed")
                signals = max(signals, sum("audited" in line for line in lines))
                problems += [f"{place.name}: {problem}" for problem in problems_of(place, request, lines)]
            finally:
                job.end()
                shutil.rmtree(place, ignore_errors=True)
        if status == DONE:
            print(json.dumps({"points": number, "signals": signals, "problems": problems}))
            return


if __name__ == "__main__":
    main()
