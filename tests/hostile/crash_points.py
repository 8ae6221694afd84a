"""Kills a hub at every write: `python -m tests.hostile.crash_points FOLDER` prints what the next hub cannot read.

A child process writes everything that a hub keeps, and ends itself at its n-th call that changes a file: before it, or
in the middle of the bytes of a write. The next child reads the directory, as the next hub does. This is repeated for
all n, and once with n beyond the last call. Children are forked, so that all imports happen once; the parent writes and
reads a directory first, so that templates are compiled and decoders are built once.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tests.build import NOW, finding
from tests.hub.incidents.build import EVIDENCE, made
from tests.hub.test_accounts import observed
from tests.hub.test_ended_jobs import record_end
from tests.schema.test_curve import ALONE, point
from zmon.hub import json_lines
from zmon.hub.accounts import Accounts
from zmon.hub.baseline_store import BaselineStore
from zmon.hub.ended_jobs import EndedJobs
from zmon.hub.incidents.capsule_store import CapsuleStore
from zmon.hub.journal import Journal
from zmon.hub.pauses import PauseStore
from zmon.schema.pause import Place

CALLS = ("write", "replace", "rename", "fsync", "unlink", "ftruncate", "mkdir", "rmdir")  # each may be the last one
DONE, KILLED, KILLED_AT_WRITE = 0, 9, 10
PLACE = Place("data", "read() at loader.py:40")


class CrashPoint:
    """Counts the calls that change files, and ends the process at one of them."""

    def __init__(self, number: int, in_the_middle: bool) -> None:
        self._number, self._in_the_middle = number, in_the_middle
        self._count = itertools.count()

    def install(self) -> None:
        """Replace the functions of `os` that change files."""
        for name in CALLS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            if next(self._count) == self._number:
                if name == "write" and self._in_the_middle:
                    fd, data = arguments
                    call(fd, bytes(data)[: len(data) // 2])
                os._exit(KILLED_AT_WRITE if name == "write" else KILLED)
            return call(*arguments, **options)

        return counted


def work(folder: Path, acknowledge: Callable[[str], None]) -> None:
    """Write everything that a hub keeps, twice, and acknowledge what is written."""
    findings = Journal(folder / "findings.jsonl")
    accounts, ended = Accounts(folder / "accounts"), EndedJobs(folder / "ended")
    pauses, baselines, capsules = (
        PauseStore(folder / "pauses"),
        BaselineStore(folder / "baselines"),
        CapsuleStore(folder),
    )
    capsules.clear()
    for number in (1, 2):
        findings.open_or_update(finding(id=f"{number:016x}", job_id=f"job-{number}", evidence=EVIDENCE), NOW)
        (fault,) = findings.active_of(f"job-{number}", "stall")
        acknowledge(f"open {fault.id}")
        observed(accounts)
        accounts.save()
        acknowledge("account")
        if number == 1:
            capsule, rows = made(fault)
            for severity in ("warning", "critical"):
                capsules.write(replace(capsule, finding=replace(fault, severity=severity)), rows)
                acknowledge(f"incident {fault.id}")
        findings.record_capsule(replace(fault, capsule="/incidents/x"))
        for seconds in (0.0, 10.0):
            findings.resolve(fault.job_id, fault.detector, NOW + seconds)
        acknowledge(f"resolved {fault.id}")
        record_end(ended, fault.job_id)
        acknowledge(f"ended {fault.job_id}")
        pauses.record("ranker", [PLACE], 6.0 + number, NOW)
        acknowledge("pause")
        baselines.record("ranker", ALONE if number == 1 else point(2, 1024, 0.11))
        acknowledge(f"baseline {number}")


def check(folder: Path, acknowledged: set[str]) -> list[str]:
    """Read the directory as the next hub does; return a line for each thing that is lost or cannot be read."""
    problems: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: problems.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("zmon").addHandler(handler)
    findings = Journal(folder / "findings.jsonl")
    problems += [f"error: {error}" for error in [findings.error] if error]
    by_id = {f.id: f for f in findings.all()}
    capsules = CapsuleStore(folder)
    capsules.clear()
    listed = {summary.id for summary in capsules.summaries()}
    ended, pauses = EndedJobs(folder / "ended"), PauseStore(folder / "pauses").pauses("ranker", NOW)
    curve = BaselineStore(folder / "baselines").curve("ranker")
    account = Accounts(folder / "accounts").account_of(_job())
    for what in acknowledged:
        kind, _, subject = what.partition(" ")
        present = {
            "open": lambda subject: subject in by_id,
            "resolved": lambda subject: by_id[subject].resolved is not None,
            "incident": lambda subject: subject in listed and capsules.read(subject) is not None,
            "ended": lambda subject: ended.ended(subject, NOW) is not None,
            "pause": lambda subject: bool(pauses),
            "baseline": lambda subject: len(curve.points) >= int(subject),
            "account": lambda subject: bool(account.causes),
        }[kind](subject)
        if not present:
            problems.append(f"lost: {what}")
    for path in folder.rglob("*.json"):
        try:
            msgspec.json.decode(path.read_bytes())
        except msgspec.DecodeError as error:
            problems.append(f"{path.relative_to(folder)}: {error}")
    try:
        work(folder, lambda what: None)
    except Exception as error:  # whatever it is, the next hub would not go on
        problems.append(f"the next hub fails: {error!r}")
    return problems


def _job() -> Any:
    from tests.hub.test_accounts import job

    return job()


def in_child(function: Callable[[int], None]) -> tuple[int, bytes]:
    """Call a function in a forked process with the writing end of a pipe; return exit status and what it wrote."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        status = 1
        try:
            function(writing)
            status = DONE
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        written = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), written


def crash(place: Path, number: int, in_the_middle: bool) -> tuple[int, list[str]]:
    """Write until the n-th call; return the exit status, and what was acknowledged."""

    def until_crash(pipe: int) -> None:
        send = os.write  # the pipe is not a file of the hub
        CrashPoint(number, in_the_middle).install()
        work(place, lambda what: send(pipe, f"{what}\n".encode()) and None)

    status, written = in_child(until_crash)
    return status, written.decode().splitlines()


def verify(place: Path, acknowledged: list[str]) -> list[str]:
    """Check a directory in a process of its own."""
    _, answer = in_child(lambda pipe: os.write(pipe, json.dumps(check(place, set(acknowledged))).encode()) and None)
    return list(json.loads(answer or b'["the check failed"]'))


def main() -> None:
    """Crash at every point; print the number of points and the problems as JSON."""
    folder = Path(sys.argv[1])
    json_lines.REWRITE_BYTES = 4000  # so that the journal is rewritten as well
    work(folder / "first", lambda what: None)
    problems = [f"first: {problem}" for problem in verify(folder / "first", [])]
    for number in itertools.count():
        status = None
        for in_the_middle in (False, True):
            if in_the_middle and status != KILLED_AT_WRITE:
                continue
            place = folder / f"{number}-{in_the_middle}"
            status, acknowledged = crash(place, number, in_the_middle)
            if status not in (DONE, KILLED, KILLED_AT_WRITE):
                problems.append(f"{place.name}: the work failed")
            problems += [f"{place.name}: {problem}" for problem in verify(place, acknowledged)]
            shutil.rmtree(place, ignore_errors=True)
        if status == DONE:
            print(json.dumps({"points": number, "problems": problems}))
            return


if __name__ == "__main__":
    main()
