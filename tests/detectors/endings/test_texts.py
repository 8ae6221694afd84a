"""Tests of what findings about ends say and advise, beyond the rows of the table."""

from dataclasses import replace

import pytest
from msgspec import UNSET

from tests.build import (
    NOW,
    agent_report,
    dead,
    disconnected,
    finding,
    finished,
    killed,
    raised,
    rank_state,
    snapshot,
    terminated,
    words,
)
from tests.detectors.endings.abort_rows import gloo_aborted, lost
from tests.detectors.endings.one_rank_rows import restarting
from tests.detectors.endings.store_rows import PAIR, WAITING, ended_at, refused, victim, windows
from tests.detectors.stalls import STALL, detect, others
from zmon.job.timeline import snapshots


def wrapped():
    """Return an exception that `torch.multiprocessing.spawn` turned into an exit code."""
    error = words("exception", "builtins.SystemExit", "1")
    return replace(error, root="builtins.RuntimeError: cannot read shard 17", where="read() at train.py:43")


def without_restarts_left(number):
    """Return a rank that was killed in a job that has used all of this number of restarts."""
    return [killed(2, max_restarts=number, restart_count=number)]


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([killed(2), *others(2, disconnected)], "SIGKILL; nothing will restart the job"),
        ([raised(1, 1.2, "bad batch 17\nin shard 3"), *others(1, terminated)], "ValueError: bad batch 17;"),
        ([dead(3), *others(3)], "killed without last words"),
        ([raised(3, last_words=wrapped()), *others(3)], ": cannot read shard 17 (in read() at train.py:43)"),
        (restarting(2, 10.0), "3 restarts left"),
        (without_restarts_left(1), "used its only restart"),
        (without_restarts_left(3), "used all its 3 restarts"),
        ([gloo_aborted(0, 4000), lost(1, 5000), lost(2, 4000), lost(3, 4000)],
         "collective 301 of group 0: all_reduce of 4000 bytes: ranks 0, 2, 3; all_reduce of 5000 bytes: rank 1"),
    ],
)  # fmt: skip
def test_summary_says_what_happened(ranks, text):
    assert text in detect(*ranks).summary


def test_evidence_of_a_size_mismatch_has_the_collective():
    evidence = detect(gloo_aborted(0, 4000), lost(1, 5000), lost(2, 4000), lost(3, 4000)).evidence
    assert (evidence.group, evidence.sequence) == ("0", 301)


def test_advice_about_a_size_mismatch_is_certain_only_if_a_rank_is_named():
    certain = detect(gloo_aborted(0, 4000), lost(1, 5000), lost(2, 4000), lost(3, 4000))
    unclear = detect(gloo_aborted(0, 4000), lost(1, 5000), lost(2, 4000), lost(3, 5000))
    assert (certain.ranks, unclear.ranks) == ((1,), ())
    assert "of rank 1 on node-a differs from that of the other ranks" in certain.detail
    assert "will end the same way" in certain.detail
    assert "will end the same way" not in unclear.detail


def test_evidence_of_a_broken_connection_has_the_pair():
    pair = detect(*PAIR, hardware=windows())
    assert (pair.hosts, pair.evidence.pair) == (("node-b", "node-c"), (1, 2))
    assert "10.0.0.3" in pair.summary  # of the wrapped error
    one_host = [victim(rank, ago, 0, "node-a") for rank, ago in ((0, 1.2), (1, 2.0), (2, 1.995), (3, 1.25))]
    assert detect(*one_host).evidence.pair == (1, 2)


@pytest.mark.parametrize("ranks", [PAIR, [*PAIR[:2], *(terminated(r, host=f"node-{r}") for r in (0, 3))]])
def test_nobody_is_a_pair_without_the_owners_of_the_addresses(ranks):
    assert (detect(*ranks).hosts, detect(*ranks).evidence.pair) == ((), UNSET)


@pytest.mark.parametrize(("restarts", "is_suspected"), [(0, False), (1, True)])
def test_address_of_an_earlier_start_is_suspected_only_after_a_restart(restarts, is_suspected):
    ranks = [refused(0), *(ended_at(rank, WAITING) for rank in (1, 2, 3))]
    detail = detect(*(replace(r, restart_count=restarts, max_restarts=1) for r in ranks)).detail
    assert ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in detail) is is_suspected


@pytest.mark.parametrize(("number", "hosts", "text"), [
    (3, 1, "(on node-0: `kill 1000 1001 1002`)"),
    (20, 2, "(on node-0: `kill 1000 1001 1002 1003 1004 1005 1006 1007`; `evidence.pids` in"),
])  # fmt: skip
def test_advice_about_orphans_has_the_command_that_ends_them(number, hosts, text):
    gone = {"max_restarts": 0, "launcher_status": "signal SIGKILL", "launcher_gone_seconds": 9.0}
    result = detect(*(rank_state(rank, host=f"node-{rank * hosts // number}", **gone) for rank in range(number)))
    assert text in result.detail
    assert len(result.evidence.pids) == number


def test_quiet_once_the_launcher_has_restarted_the_job():
    before = [replace(r, start=NOW - 60) for r in (killed(2, 5.0), *others(2, terminated))]
    again = [rank_state(r, attempt=1, restart_count=1, start=NOW - 3, activity="init") for r in range(4)]
    (job,) = snapshots([agent_report(*before, *again)], [], [], NOW)
    assert STALL.detect(job) == ()


@pytest.mark.parametrize(("gone", "over"), [(0.2, False), (4.9, False), (5.1, True)])
def test_finding_stays_open_until_it_is_clear_why_ranks_ended(gone, over):
    now = snapshot(finished(0, 20.0), finished(1, 20.0), finished(2, 20.0), disconnected(3, gone))
    assert STALL.can_resolve(now, finding()) is over


def test_finding_resolves_when_all_ranks_train():
    assert STALL.can_resolve(snapshot(*map(rank_state, range(4))), finding())
