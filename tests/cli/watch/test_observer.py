"""Tests of what `zmon watch` says while no process of its command is a rank, and how it sees the end of a job."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from tests.build import finished, interrupted, killed, rank_state, snapshot
from tests.cli.render.build import VIEW
from zmon.agent import AgentConfig
from zmon.cli.watch.child import Child
from zmon.cli.watch.launch import Launch
from zmon.cli.watch.observer import Observer, watched_job
from zmon.cli.watch.watched_command import Options, WatchedCommand

NO_JOB = SimpleNamespace(
    snapshots=[], journal=SimpleNamespace(all=list, active=list), reported_jobs=list, notifier=None
)  # fmt: skip


def messages_after(seconds, folder, **options):
    """Return the messages of two looks at a command that has run for so many seconds and has no rank."""
    messages = []
    run = WatchedCommand(
        ["torchrun"], Child(7), Launch(1, False), folder, time.time() - seconds, Options(**options),
        messages=SimpleNamespace(say=messages.append),
    )  # fmt: skip
    observer = Observer(run, AgentConfig(folder, "node-a"))
    looks = iter([False, False, True])
    run.hurry = SimpleNamespace(is_set=lambda: next(looks))
    asyncio.run(observer._follow(NO_JOB))
    return messages


def test_launcher_that_waits_for_other_nodes_is_noted_once(tmp_path):
    (message,) = messages_after(61, tmp_path)
    assert message.startswith("zmon: no process of the command trains with torch after 60 s. If torchrun")


def test_quiet_while_ranks_may_still_start(tmp_path):
    assert messages_after(50, tmp_path) == []


def test_quiet_option_also_silences_the_note(tmp_path):
    assert messages_after(61, tmp_path, quiet=True) == []


@pytest.mark.parametrize(
    ("ranks", "cancelled"),
    [
        (map(interrupted, range(4)), "its owner ended all 4 ranks at step 100 (KeyboardInterrupt)"),
        ([rank_state(0), *map(interrupted, (1, 2, 3))], ""),
        (map(killed, range(4)), ""),
        (map(finished, range(4)), ""),
    ],
    ids=["interrupted", "one lives", "killed", "finished"],
)
def test_job_whose_ranks_a_signal_ended_was_cancelled(ranks, cancelled):
    assert watched_job(snapshot(*ranks), VIEW, ()).cancelled == cancelled
