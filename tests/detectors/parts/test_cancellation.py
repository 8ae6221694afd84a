"""Tests of signals that ended ranks: an owner's end is quiet, and nobody is named because its handler ran first."""

from dataclasses import replace

import pytest

from tests.build import dead, disconnected, terminated, words
from tests.detectors.stalls import detect

HOSTS = ("node-a", "node-b", "node-c", "node-d")


def signalled(rank, ago, host=HOSTS[0], **changes):
    """Return a rank that SIGTERM ended so many seconds ago."""
    return replace(terminated(rank, ago), last_words_seconds=ago, host=host, **changes)


def broken(rank, ago, gone, host=HOSTS[0]):
    """Return a rank that lost a connection so many seconds ago, and ended later."""
    return replace(disconnected(rank, gone), last_words_seconds=ago, host=host)


def exited(rank, ago):
    """Return a rank whose own handler of SIGTERM ended it so many seconds ago."""
    own = words("exception", "builtins.SystemExit", "143")
    return dead(rank, ago, last_words=own, last_words_seconds=ago, exit_status="exit code 143")


def test_owner_ends_a_job_on_several_hosts_in_silence():
    """The ages differ by the delays of the reports."""
    assert detect(*(signalled(rank, 2.0 - 0.3 * (rank == 3), host) for rank, host in enumerate(HOSTS))) is None


def test_owner_ends_a_job_in_silence_although_handlers_run_late():
    assert detect(exited(3, 1.2), *(exited(rank, 1.0) for rank in range(3))) is None


def test_signal_that_one_rank_had_clearly_first_is_a_warning():
    finding = detect(signalled(3, 1.1), *(signalled(rank, 1.0) for rank in range(3)))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (3,), "warning")


@pytest.mark.parametrize("reaction", [0.03, 0.1])
def test_survivor_of_a_reset_connection_is_not_named_if_its_launcher_ends_it(reaction):
    """The launcher of all hosts reacts soon after the first rank has ended."""
    pair = [broken(2, 2.0, 1.9, HOSTS[2]), broken(3, 1.995, 1.9, HOSTS[3])]
    finding = detect(signalled(0, 2.0 - reaction), signalled(1, 1.99 - reaction, HOSTS[1]), *pair)
    assert (finding.cause, finding.ranks, finding.severity) == ("connection_lost", (), "critical")


def test_owner_ends_a_job_in_silence_although_connections_break_afterwards():
    others = [broken(0, 1.97, 1.9), broken(1, 1.96, 1.9, HOSTS[1])]
    assert detect(*others, signalled(2, 2.0, HOSTS[2]), signalled(3, 1.98, HOSTS[3])) is None
