"""Tests of signals that ended ranks: an owner's end is quiet, and nobody is named because its handler ran first."""

from dataclasses import replace

import pytest

from tests.build import NOW, dead, disconnected, rank_state, terminated, words
from tests.detectors.stalls import detect
from zmon.schema.host import HostLoad, HostSample, HostWindow

HOSTS = ("node-a", "node-b", "node-c", "node-d")


def signalled(rank, ago, host=HOSTS[0], **changes):
    """Return a rank that SIGTERM ended so many seconds ago."""
    return replace(terminated(rank, ago), last_words_seconds=ago, host=host, **changes)


def broken(rank, ago, gone, host=HOSTS[0]):
    """Return a rank that lost a connection so many seconds ago, and ended later."""
    lost = disconnected(rank, gone)
    return replace(lost, last_words=replace(lost.last_words, time=NOW - ago), last_words_seconds=ago, host=host)


def exited(rank, ago):
    """Return a rank whose own handler of SIGTERM ended it so many seconds ago."""
    own = words("exception", "builtins.SystemExit", "143", NOW - ago)
    return dead(rank, ago, last_words=own, last_words_seconds=ago, exit_status="exit code 143")


def test_owner_ends_a_job_on_several_hosts_in_silence():
    """The ages differ by the delays of the reports."""
    assert detect(*(signalled(rank, 2.0 - 0.3 * (rank == 3), host) for rank, host in enumerate(HOSTS))) is None


def test_owner_ends_a_job_in_silence_although_handlers_run_late():
    assert detect(exited(3, 1.2), *(exited(rank, 1.0) for rank in range(3))) is None


def waiting_for_cores(ratio, host=HOSTS[0]):
    """Return the last minute of a host whose processes waited for a core for this share of it."""
    before, now = (HostLoad({}, 1 << 30, 1 << 30, 0, pressure_seconds={"cpu": s}) for s in (5.0, 5.0 + 60.0 * ratio))
    return HostWindow(host, 60.0, HostSample(load=before), HostSample(load=now))


def test_signal_that_one_rank_had_clearly_first_is_a_warning():
    ranks = [signalled(3, 1.1), *(signalled(rank, 1.0) for rank in range(3))]
    finding = detect(*ranks, hardware=[waiting_for_cores(0.1)])
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (3,), "warning")


@pytest.mark.parametrize("hardware", [[], [waiting_for_cores(0.9)]], ids=["pressure unknown", "busy host"])
def test_nobody_is_named_for_having_a_signal_first_where_processes_wait_for_cores(hardware):
    """A rank that the kernel lets run later handles the same signal later."""
    finding = detect(signalled(3, 1.3), *(signalled(rank, 1.0) for rank in range(3)), hardware=hardware)
    assert (finding.cause, finding.ranks, finding.severity) == ("unknown", (), "warning")


def sent_by(pid, state):
    """Return the rank with the process that sent its signal."""
    return replace(state, last_words=replace(state.last_words, sender_pid=pid))


def launchers_pid(state):
    return int(state.launcher.partition("@")[0])


def by_launcher(rank, ago, host=HOSTS[0]):
    """Return a rank that its launcher ended by SIGTERM so many seconds ago."""
    state = signalled(rank, ago, host)
    return sent_by(launchers_pid(state), state)


@pytest.mark.parametrize("lead", [0.0, 0.005, 1.0])
@pytest.mark.parametrize("host", [HOSTS[0], HOSTS[1]], ids=["one host", "two hosts"])
def test_rank_that_another_process_signalled_is_named_if_the_launcher_signalled_the_others(lead, host):
    target = sent_by(4711, signalled(1, 2.0 + lead, host))
    finding = detect(target, *(by_launcher(rank, 2.0) for rank in (0, 2, 3)))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (1,), "critical")


def test_owner_ends_a_job_through_its_launcher_in_silence_although_one_rank_runs_late():
    assert detect(by_launcher(3, 1.5), *(by_launcher(rank, 1.0) for rank in range(3))) is None


def test_owner_ends_a_job_with_a_handler_in_silence_although_most_ranks_lose_a_connection_first():
    """The launcher has signalled all of them. The handler of one rank ran before those of the others."""
    victims = [broken(rank, 1.9, 1.0) for rank in range(3)]
    ranks = [exited(3, 2.0), *victims]
    assert detect(*ranks).severity == "critical", "without the senders, only one rank had a signal"
    assert detect(*(sent_by(launchers_pid(rank), rank) for rank in ranks)) is None


def test_owner_ends_a_job_with_a_handler_in_silence_although_others_have_left_their_last_words_before_the_signal():
    first = sent_by(launchers_pid(exited(3, 2.0)), exited(3, 2.0))
    assert detect(first, *(broken(rank, 1.9, 1.0) for rank in range(3))) is None


def test_rank_whose_handler_ended_it_is_named_if_another_process_signalled_it():
    finding = detect(sent_by(4711, exited(3, 2.0)), *(broken(rank, 1.9, 1.0) for rank in range(3)))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (3,), "critical")


def test_owner_signals_all_ranks_in_silence_although_one_rank_runs_late():
    ranks = [signalled(3, 1.5), *(signalled(rank, 1.0) for rank in range(3))]
    assert detect(*(sent_by(4711, rank) for rank in ranks)) is None


def test_signal_that_one_rank_had_first_is_critical_if_the_other_hosts_had_none():
    """The launcher of its host ended its neighbour. The ranks of the other host raised, and ended by themselves."""
    others = [broken(rank, 1.8, gone, HOSTS[1]) for rank, gone in ((0, 1.3), (1, 1.2))]
    finding = detect(*others, signalled(2, 1.88), signalled(3, 2.0))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (3,), "critical")
    may_have_had_it = [replace(broken(rank, 1.8, 1.7, HOSTS[1]), exit_status=None) for rank in (0, 1)]
    assert detect(*may_have_had_it, signalled(2, 1.88), signalled(3, 2.0)).severity == "warning"


@pytest.mark.parametrize("reaction", [0.03, 0.1])
def test_survivor_of_a_reset_connection_is_not_named_if_its_launcher_ends_it(reaction):
    """The launcher of all hosts reacts soon after the first rank has ended."""
    pair = [broken(2, 2.0, 1.9, HOSTS[2]), broken(3, 1.995, 1.9, HOSTS[3])]
    finding = detect(signalled(0, 2.0 - reaction), signalled(1, 1.99 - reaction, HOSTS[1]), *pair)
    assert (finding.cause, finding.ranks, finding.severity) == ("connection_lost", (), "critical")


def test_owner_ends_a_job_in_silence_although_connections_break_afterwards():
    others = [broken(0, 1.97, 1.9), broken(1, 1.96, 1.9, HOSTS[1])]
    assert detect(*others, signalled(2, 2.0, HOSTS[2]), signalled(3, 1.98, HOSTS[3])) is None


def test_first_rank_of_the_only_host_that_had_a_signal_is_named():
    others = [broken(rank, 1.9, 1.0, HOSTS[1]) for rank in (0, 1)]
    finding = detect(*others, signalled(2, 1.99, HOSTS[2]), signalled(3, 2.0, HOSTS[2]))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (3,), "critical")
    assert "no other rank had a signal" in finding.summary


def test_rank_of_the_only_host_that_had_a_signal_is_named_once_the_others_have_waited_for_a_minute():
    others = [rank_state(rank, host=HOSTS[1], step_seconds=62.0, overdue_seconds=60.0) for rank in (0, 1)]
    ended = [signalled(rank, 61.0, HOSTS[2]) for rank in (2, 3)]
    assert detect(*others, *ended).ranks == (2,)
    assert detect(*others, *(signalled(rank, 59.0, HOSTS[2]) for rank in (2, 3))) is None


def test_nobody_is_named_if_the_others_may_have_had_the_signal_a_moment_later():
    """Kernels before 6.15 tell no exit status. The owner may have ended each rank by itself."""
    other = replace(broken(0, 1.98, 1.9), launcher="901@1", exit_status=None, world_size=2)
    finding = detect(other, signalled(1, 2.0, HOSTS[1], exit_status=None, world_size=2))
    assert (finding.cause, finding.ranks, finding.severity) == ("unknown", (), "warning")


def test_owner_ends_ranks_without_a_launcher_in_silence_although_a_connection_breaks_first():
    other = replace(broken(0, 1.98, 1.9), launcher="901@1", exit_status="signal SIGTERM", world_size=2)
    assert detect(other, signalled(1, 2.0, HOSTS[1], world_size=2)) is None


def test_nobody_is_named_if_the_launcher_may_have_ended_the_others_soon_after():
    """torchrun looks for dead ranks every 0.1 s, so it may react within 0.03 s."""
    finding = detect(signalled(3, 1.03), *(signalled(rank, 1.0) for rank in range(3)))
    assert (finding.cause, finding.ranks, finding.severity) == ("unknown", (), "warning")


def test_owner_ends_a_job_in_silence_although_its_ranks_react_one_after_the_other():
    assert detect(*(signalled(rank, 1.0 + 0.02 * rank) for rank in range(4))) is None


def test_ranks_that_nccl_aborts_because_of_a_signal_to_one_host_had_no_signal():
    waited = {"device": "GPU-0", "step_seconds": 47.0, "state_seconds": 46.0, "exit_status": "signal SIGABRT"}
    others = [dead(rank, 0.6, host=HOSTS[1], **waited) for rank in (0, 1)]
    assert detect(*others, *(signalled(rank, 46.0 + rank / 100, HOSTS[2]) for rank in (2, 3))).ranks == (3,)


def test_launcher_that_took_its_ranks_along_is_reported_although_ranks_of_other_hosts_wait():
    ended = {"launcher_status": "signal SIGKILL", "launcher_gone_seconds": 2.1}
    others = [rank_state(rank, host=HOSTS[1]) for rank in (0, 1)]
    finding = detect(*others, *(signalled(rank, 2.0, HOSTS[2], **ended) for rank in (2, 3)))
    assert (finding.cause, finding.ranks, finding.hosts) == ("launcher_gone", (), (HOSTS[2],))


def two_launchers(*others):
    """Return a rank of the second host that SIGTERM ended, and its launcher's other rank, beside ranks of the first."""
    signal = {"exit_status": "signal SIGTERM", "max_restarts": 0}
    second = [signalled(2, 0.8, HOSTS[1], max_restarts=0), replace(broken(3, 0.785, 0.7, HOSTS[1]), **signal)]
    return [*(replace(each, max_restarts=0) for each in others), *second]


def test_owner_ends_ranks_of_two_launchers_in_silence_although_a_connection_breaks_before_most_signals():
    """The launcher of the other host signals no rank before one of them has failed by itself."""
    others = [replace(broken(rank, 0.785, 0.75), exit_status="signal SIGTERM") for rank in (0, 1)]
    assert detect(*two_launchers(*others)) is None


def test_rank_that_alone_had_a_signal_is_named_if_the_first_rank_of_the_other_launcher_ended_by_itself():
    others = [broken(0, 0.785, 0.75), replace(broken(1, 0.785, 0.6), exit_status="signal SIGTERM")]
    finding = detect(*two_launchers(*others))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (2,), "critical")


def test_host_that_had_a_signal_is_named_if_a_rank_of_the_other_host_ended_by_itself_in_the_same_look():
    """Its launcher then signalled the rest of that host."""
    itself, led = broken(0, 1.2, 0.9, HOSTS[1]), signalled(1, 0.9, HOSTS[1])
    finding = detect(itself, led, *(signalled(rank, 2.5, HOSTS[2]) for rank in (2, 3)))
    assert (finding.cause, finding.hosts, finding.severity) == ("rank_exited", (HOSTS[2],), "critical")


def test_ranks_that_nccl_aborts_had_no_signal_although_their_launcher_ended_another_at_once():
    """The agent sees all of them dead in the same look."""
    waited = {"device": "GPU-0", "step_seconds": 47.0, "state_seconds": 46.0, "host": HOSTS[1]}
    others = [dead(rank, 0.6, exit_status="signal SIGABRT", **waited) for rank in (0, 1)]
    ended = dead(4, 0.6, exit_status="signal SIGTERM", **waited)
    finding = detect(*others, ended, *(signalled(rank, 46.0 + rank / 100, HOSTS[2]) for rank in (2, 3)))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (3,), "critical")


def test_rank_that_ends_by_its_exception_long_after_the_signal_had_no_signal():
    """Without exit statuses, the time shows it: SIGTERM would have ended the rank at once."""
    unknown = {"exit_status": None, "world_size": 2}
    slow, quick = (replace(broken(0, 1.98, gone), launcher="901@1", **unknown) for gone in (1.4, 1.6))
    first = signalled(1, 2.0, HOSTS[1], **unknown)
    finding = detect(slow, first)
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (1,), "critical")
    assert detect(quick, first).cause == "unknown"
