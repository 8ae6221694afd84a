"""Kills a hub at every step of an act: `python -m tests.hostile.intent_crash_points FOLDER` prints what went wrong.

A child process decides about a frozen rank as a hub does, and ends itself at its n-th call that changes a file, or in
the middle of the bytes of a write. The next child sees the same finding, as the next hub does. Both say when they ask
an agent, and whether the intent is on the disk then. This is repeated for all n, and once with n beyond the last call.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tests.build import NOW
from tests.hostile.crash_points import DONE, KILLED_AT_WRITE, CrashPoint, in_child
from tests.hub.acts.builds import PROVEN, rule, stalled
from zmon.hub import acts
from zmon.hub.acts import FILE, Intents, Policy
from zmon.schema.act import ACTED, ENFORCE, ActAnswer, Intent

FINDING = replace(PROVEN, capsule="/incidents/f1")
POLICY = Policy((rule(mode=ENFORCE, override="a test"),))


def hub(folder: Path, say: Callable[[str], None]) -> None:
    """Decide about the finding in some passes, and answer as an agent does."""

    async def ask(*_: Any) -> ActAnswer:
        say("audited" if any(intent.id == "f1/frozen" for intent in on_disk(folder)) else "unaudited")
        return ActAnswer(result=ACTED, reason="SIGKILL", host="node-a", time=NOW)

    async def passes() -> None:
        intents, snapshot = Intents(POLICY, folder, ()), stalled()
        for seconds in range(6):
            intents.update(None, [FINDING], [snapshot], NOW + seconds)  # type: ignore[arg-type]
            await asyncio.sleep(0.01)
        await intents.close()

    acts.client.ask = ask  # type: ignore[assignment]
    acts.links_of = lambda _, ranks: {r.run_uid: (_Link(), r.job_id) for r in ranks}  # type: ignore[assignment, misc]
    asyncio.run(passes())


class _Link:
    url = "http://agent"


def on_disk(folder: Path) -> list[Intent]:
    """Return the intents in the file, without lines that a kill tore."""
    path = folder / FILE
    intents = []
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            intents.append(msgspec.json.decode(line, type=Intent))
        except msgspec.DecodeError:
            continue
    return intents


def run(folder: Path, crash: CrashPoint | None) -> tuple[int, list[str]]:
    """Decide in a child; return its exit status and what it said."""

    def child(pipe: int) -> None:
        write = os.write
        if crash is not None:
            crash.install()
        hub(folder, lambda line: write(pipe, f"{line}\n".encode()) and None)

    status, text = in_child(child)
    return status, text.decode().split()


def main() -> None:
    """Crash at every point; print the number of points, of requests without a crash, and the problems as JSON."""
    folder, problems = Path(sys.argv[1]), []
    for number in itertools.count():
        status, first = None, []
        for in_the_middle in (False, True):
            if in_the_middle and status != KILLED_AT_WRITE:
                continue
            place = folder / f"{number}-{in_the_middle}"
            place.mkdir(parents=True)
            status, first = run(place, CrashPoint(number, in_the_middle))
            next_status, second = run(place, None)
            lines = first + second
            problems += [f"{place.name}: {lines}"] if lines.count("audited") > 1 or "unaudited" in lines else []
            problems += [f"{place.name}: the next hub ends with {next_status}"] if next_status != DONE else []
            problems += [f"{place.name}: nothing is written down"] if not on_disk(place) else []
        if status == DONE:
            print(json.dumps({"points": number, "requests": len(first), "problems": problems}))
            return


if __name__ == "__main__":
    main()
