"""Kills a hub at every step of an act: `python -m tests.hostile.intent_crash_points FOLDER` prints what went wrong.

A child process decides about a frozen rank as a hub does, and is killed at one call that changes a file. The next child
sees the same finding, as the next hub does. Both say when they ask an agent, and whether the intent is on the disk
then. This is repeated for all calls (`crash_everywhere`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from tests.build import NOW
from tests.hostile.crashing import DONE, CrashPoint, Say, crash_everywhere, in_child
from tests.hub.acts.builds import PROVEN, rule, stalled
from zmon.hub import acts
from zmon.hub.acts import FILE, Intents, Policy
from zmon.schema.act import ACTED, ENFORCE, ActAnswer, Intent

FINDING = replace(PROVEN, capsule="/incidents/f1")
INTENT_ID = "f1/frozen"  # the finding and the rule
POLICY = Policy((rule(mode=ENFORCE, override="a test"),))
LINK = SimpleNamespace(url="http://agent")


def decide(folder: Path, say: Say) -> None:
    """Decide about the finding in six passes, as a hub does. A fake agent answers that it acted."""

    async def ask(*_: Any) -> ActAnswer:
        say("audited" if any(intent.id == INTENT_ID for intent in on_disk(folder)) else "unaudited")
        return ActAnswer(result=ACTED, reason="SIGKILL", host="node-a", time=NOW)

    async def passes() -> None:
        intents, snapshot = Intents(POLICY, folder, ()), stalled()
        for seconds in range(6):
            intents.update(None, [FINDING], [snapshot], NOW + seconds)  # type: ignore[arg-type]
            await asyncio.sleep(0.01)
        await intents.close()

    acts.client.ask = ask  # type: ignore[assignment]
    acts.links_of = lambda _, ranks: {r.run_uid: (LINK, r.job_id) for r in ranks}  # type: ignore[assignment, misc]
    asyncio.run(passes())


def on_disk(folder: Path) -> list[Intent]:
    """Return the intents in the file, without lines that a kill tore."""
    path = folder / FILE
    intents = []
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        with contextlib.suppress(msgspec.DecodeError):
            intents.append(msgspec.json.decode(line, type=Intent))
    return intents


def main() -> None:
    """Crash at every point; print the numbers of points and of requests without a crash, and the problems, as JSON."""
    problems: list[str] = []
    num_requests = 0

    def attempt(place: Path, point: CrashPoint) -> int:
        nonlocal num_requests
        place.mkdir(parents=True)
        status, first = in_child(partial(decide, place), point)
        next_status, second = in_child(partial(decide, place))
        lines = first + second
        num_requests = len(first)
        if lines.count("audited") > 1 or "unaudited" in lines:
            problems.append(f"{place.name}: {lines}")
        if next_status != DONE:
            problems.append(f"{place.name}: the next hub ends with {next_status}")
        if not on_disk(place):
            problems.append(f"{place.name}: nothing is written down")
        return status

    num_points = crash_everywhere(Path(sys.argv[1]), attempt)
    print(json.dumps({"points": num_points.total(), "requests": num_requests, "problems": problems}))


if __name__ == "__main__":
    main()
