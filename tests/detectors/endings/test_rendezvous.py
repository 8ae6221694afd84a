"""Tests of ranks that never met: a rank that only waited for the others is not named."""

from dataclasses import replace

from tests.build import NOW, rank_state, words
from tests.detectors.stalls import detect
from zmon.schema.rank import RankState

MESH = (
    "Gloo connectFullMesh failed with [/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: Connection "
    "refused, remote=[127.0.0.1]:58262$0"
)
WAITED = "wait timeout after 6000ms, keys: /default_pg/0//cpu//0/1"
LOST_STORE = "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
CONNECTING = 'File "rendezvous.py", line 190 in _create_c10d_store\n  File "rendezvous.py", line 280 in _env_rendezvous'
WAITING = 'File "distributed_c10d.py", line 2101 in _new_process_group_helper\n  File "distributed_c10d.py", line 1800'


def starting(rank: int, **changes) -> RankState:
    """Return a rank in init, which has run no collective."""
    return rank_state(rank, activity="init", steps=0, sequences={}, in_flight=None, **changes)


def gave_up(rank: int, ago: float) -> RankState:
    """Return a rank that waited in vain until so many seconds ago."""
    return ended(rank, ago, "exit code 1", "exception", "torch.distributed.DistStoreError", WAITED)


def lost_store(rank: int, ago: float) -> RankState:
    """Return a rank whose store gave up or died so many seconds ago, while the rank waited there."""
    return ended(rank, ago, "exit code 1", "exception", "torch.distributed.DistNetworkError", LOST_STORE)


def terminated(rank: int, ago: float, stack: str) -> RankState:
    """Return a rank that its launcher ended so many seconds ago, with its stack."""
    return ended(rank, ago, "signal SIGTERM", "signal", "SIGTERM", stack)


def ended(rank: int, ago: float, status: str, *last_words: str) -> RankState:
    """Return a rank that is gone."""
    state = starting(rank, alive=False, process_state=None, gone_seconds=ago, exit_status=status)
    return replace(state, last_words=words(*last_words, NOW - ago), last_words_seconds=ago)


def test_rank_that_waited_until_the_launcher_ended_it_is_not_named():
    finding = detect(gave_up(0, 3.0), terminated(1, 2.0, CONNECTING), terminated(2, 2.0, WAITING), gave_up(3, 2.9))
    assert (finding.cause, finding.ranks) == ("rendezvous_failed", (1,))


def test_rank_0_that_hosts_the_store_and_waited_there_for_another_rank_is_not_named():
    finding = detect(terminated(0, 2.0, CONNECTING), terminated(1, 2.0, CONNECTING), gave_up(2, 3.0), gave_up(3, 2.9))
    assert (finding.cause, finding.ranks) == ("rendezvous_failed", (1,))


def test_rank_0_that_alone_did_not_reach_the_store_of_torchruns_agent_is_named():
    finding = detect(terminated(0, 2.0, CONNECTING), *(gave_up(rank, 3.0) for rank in (1, 2, 3)))
    assert (finding.cause, finding.ranks) == ("rendezvous_failed", (0,))


def test_rank_0_that_was_not_yet_at_the_store_is_named_with_the_other():
    loading = 'File "dataset.py", line 12 in read'
    finding = detect(terminated(0, 2.0, loading), terminated(1, 2.0, CONNECTING), gave_up(2, 3.0), gave_up(3, 2.9))
    assert (finding.cause, finding.ranks) == ("rendezvous_failed", (0, 1))


def test_ranks_in_init_are_not_named_while_they_may_be_about_to_give_up():
    assert detect(gave_up(0, 1.0), starting(1), starting(2), starting(3)) is None


def test_rank_that_does_not_give_up_with_the_others_is_named():
    finding = detect(gave_up(0, 8.0), starting(1), gave_up(2, 6.6), gave_up(3, 7.0))
    assert (finding.cause, finding.ranks) == ("rendezvous_failed", (1,))


def test_rank_whose_store_gave_up_is_not_named():
    finding = detect(gave_up(0, 3.0), terminated(1, 2.0, CONNECTING), lost_store(2, 2.9), lost_store(3, 2.9))
    assert (finding.cause, finding.ranks) == ("rendezvous_failed", (1,))


def test_nobody_is_named_if_all_ranks_lost_the_store():
    finding = detect(*(lost_store(rank, 3.0) for rank in range(4)))
    assert (finding.cause, finding.ranks) == ("rendezvous_failed", ())
    assert "lost the store while waiting" in finding.summary


def test_nobody_is_named_if_all_ranks_waited():
    finding = detect(gave_up(0, 3.0), *(terminated(rank, 2.0, WAITING) for rank in (1, 2, 3)))
    assert (finding.cause, finding.ranks) == ("rendezvous_failed", ())


def test_nobody_is_named_if_a_rank_did_not_reach_another_rank():
    refused = ended(0, 3.0, "exit code 1", "exception", "builtins.RuntimeError", MESH)
    finding = detect(refused, *(terminated(rank, 2.0, WAITING) for rank in (1, 2, 3)))
    assert (finding.cause, finding.ranks) == ("rendezvous_failed", ())
    assert "rank 0 on node-a could not connect to 127.0.0.1:58262" in finding.summary


def test_address_of_an_earlier_start_is_suspected_only_after_a_restart():
    texts = []
    for restarts in (0, 1):
        refused = ended(0, 3.0, "exit code 1", "exception", "builtins.RuntimeError", MESH)
        others = [terminated(rank, 2.0, WAITING) for rank in (1, 2, 3)]
        texts.append(detect(*(replace(r, restart_count=restarts, max_restarts=1) for r in (refused, *others))).detail)
    assert ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in text for text in texts] == [False, True]
