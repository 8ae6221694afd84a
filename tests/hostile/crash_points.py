"""Kills a hub at every write: `python -m tests.hostile.crash_points FOLDER` prints what the next hub cannot read.

A child process writes everything that a hub keeps, and is killed at one call that changes a file. The next child reads
the directory, as the next hub does. This is repeated for all calls (`crash_everywhere`). The parent writes and reads a
directory first, so that templates are compiled and decoders are built once.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from tests.build import NOW, finding
from tests.hostile.crashing import DONE, CrashPoint, Say, crash_everywhere, in_child, killed_at
from tests.hub.incidents.build import EVIDENCE, made
from tests.hub.test_accounts import job, observe_job
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

PAUSE_PLACE = Place("data", "read() at loader.py:40")


def ignore(_: str) -> None:
    """Acknowledge nothing."""


def write_everything(folder: Path, acknowledge: Say) -> None:
    """Write everything that a hub keeps, twice, and acknowledge what is written."""
    findings = Journal(folder / "findings.jsonl")
    accounts = Accounts(folder / "accounts")
    ended = EndedJobs(folder / "ended")
    pauses = PauseStore(folder / "pauses")
    baselines = BaselineStore(folder / "baselines")
    capsules = CapsuleStore(folder)
    capsules.clear()
    for number in (1, 2):
        findings.open_or_update(finding(id=f"{number:016x}", job_id=f"job-{number}", evidence=EVIDENCE), NOW)
        (fault,) = findings.active_of(f"job-{number}", "stall")
        acknowledge(f"open {fault.id}")
        observe_job(accounts)
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
        pauses.record("ranker", [PAUSE_PLACE], 6.0 + number, NOW)
        acknowledge("pause")
        baselines.record("ranker", ALONE if number == 1 else point(2, 1024, 0.11))
        acknowledge(f"baseline {number}")


def problems_in(folder: Path, acknowledged: set[str]) -> list[str]:
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
    account = Accounts(folder / "accounts").account_of(job())
    is_present = {
        "open": lambda subject: subject in by_id,
        "resolved": lambda subject: by_id[subject].resolved is not None,
        "incident": lambda subject: subject in listed and capsules.read(subject) is not None,
        "ended": lambda subject: ended.ended(subject, NOW) is not None,
        "pause": lambda _: bool(pauses),
        "baseline": lambda subject: len(curve.points) >= int(subject),
        "account": lambda _: bool(account.causes),
    }
    for line in acknowledged:
        kind, _, subject = line.partition(" ")
        if not is_present[kind](subject):
            problems.append(f"lost: {line}")
    for path in folder.rglob("*.json"):
        try:
            msgspec.json.decode(path.read_bytes())
        except msgspec.DecodeError as error:
            problems.append(f"{path.relative_to(folder)}: {error}")
    try:
        write_everything(folder, ignore)
    except Exception as error:  # whatever it is, the next hub would not go on
        problems.append(f"the next hub fails: {error!r}")
    return problems


def problems_of_next_hub(place: Path, acknowledged: Iterable[str]) -> list[str]:
    """Return the problems in a directory, read by a process of its own."""
    status, lines = in_child(lambda say: say(json.dumps(problems_in(place, set(acknowledged)))))
    return list(json.loads(lines[0])) if status == DONE else [f"the check ends with {status}"]


def main() -> None:
    """Crash at every point; print the number of points by call, and the problems, as JSON."""
    folder = Path(sys.argv[1])
    json_lines.REWRITE_BYTES = 4000  # so that the journal is rewritten as well
    write_everything(folder / "first", ignore)
    problems = [f"first: {problem}" for problem in problems_of_next_hub(folder / "first", [])]

    def attempt(place: Path, point: CrashPoint) -> int:
        status, acknowledged = in_child(lambda say: write_everything(place, say), point)
        if status != DONE and killed_at(status) is None:
            problems.append(f"{place.name}: the work ends with {status}")
        problems.extend(f"{place.name}: {problem}" for problem in problems_of_next_hub(place, acknowledged))
        return status

    num_points = crash_everywhere(folder, attempt)
    print(json.dumps({"points": num_points, "problems": problems}))


if __name__ == "__main__":
    main()
