"""Tests of exceptions that a handler of a signal raises: they end a launch well, and other exceptions do not.

The rows of tests/detectors/endings/signal_rows.py test who sent a signal.
"""

import pytest

from tests.build import dead, raised, snapshot, words
from zmon.job.restarts import ended_well


@pytest.mark.parametrize(
    ("type_", "message", "code", "is_well"),
    [
        ("builtins.KeyboardInterrupt", "", 1, True),
        ("builtins.SystemExit", "143", 1, True),
        ("torch.distributed.elastic.multiprocessing.api.SignalException", "Process 4 got signal: 15", 1, True),
        ("pytorch_lightning.utilities.exceptions.SIGTERMException", "", 1, True),
        ("builtins.SystemExit", "0", 0, True),  # a rank that exits with 0 has not failed
        ("builtins.SystemExit", "1", 1, False),
        ("builtins.ValueError", "143", 1, False),
        ("job.NoSIGTERM", "", 1, False),
        ("", "", 1, False),
    ],
)
def test_launch_ends_well_with_exceptions_that_obey_a_signal(type_, message, code, is_well):
    last_words = words("exception", type_, message)
    ranks = [dead(rank, 60.0, last_words=last_words, exit_status=f"exit code {code}") for rank in range(4)]
    assert ended_well(snapshot(*ranks)) is is_well


@pytest.mark.parametrize("superseded", [True, False])
def test_launch_whose_rank_failed_after_the_ranks_that_it_had_started_ended_well(superseded):
    assert ended_well(snapshot(raised(0, superseded=superseded, world_size=1))) is superseded
