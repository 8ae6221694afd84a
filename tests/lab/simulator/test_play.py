"""Tests of plays: the real detectors and the real journal on simulated ranks."""

from dataclasses import replace

import pytest

from lab.drills.result import NEVER
from lab.simulator.composition import Shape, Strike, compose
from lab.simulator.play import play
from lab.simulator.session import line, play_many
from lab.simulator.truth import is_true_without_a_fault, truth_of
from tests.build import finding
from tests.lab.simulator.build import SHAPE, STRUCK, composed, played


@pytest.mark.parametrize(
    ("fault", "causes"),
    [("kill", ("rank_exited",)), ("raise", ("rank_exited",)), ("stop", ("rank_frozen",)), ("block", ("compute_hang",))],
)
def test_fault_of_one_rank_is_right(fault, causes):
    result = played(Strike(fault, 2, step=STRUCK, message="bad sample in shard 17"))
    assert (result.result, result.causes, result.ranks) == ("right", causes, (2,))
    assert result.page_seconds is not None


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("place", "cause"), [("between", "compute_hang"), ("data", "input_stall")])
def test_hang_of_the_only_rank_is_right(place, cause, device):
    result = played(Strike("block", place=place, step=STRUCK), shape=replace(SHAPE, ranks=1, device=device))
    assert (result.result, result.causes, result.ranks) == ("right", (cause,), (0,))


@pytest.mark.parametrize(
    ("strike", "shape"),
    [
        (Strike("cancel", step=STRUCK), SHAPE),
        (Strike("finish", place="between", step=STRUCK), SHAPE),
        (Strike("clock_jump", step=STRUCK), Shape(ranks=4, hosts=2)),
        (Strike("agent_restart", step=STRUCK, seconds=3.0), SHAPE),
        (Strike("hub_restart", step=STRUCK, seconds=3.0), SHAPE),
    ],
    ids=lambda value: value.what if isinstance(value, Strike) else "",
)
def test_harmless_event_is_quiet(strike, shape):
    assert played(strike, shape=shape).result == "quiet"


@pytest.mark.parametrize("import_seconds", [0.0, 60.0])
def test_job_that_its_launcher_starts_again_pages_nobody_however_long_the_start_takes(import_seconds):
    shape = replace(SHAPE, max_restarts=2, import_seconds=import_seconds)
    result = played(Strike("kill", 2, step=STRUCK), shape=shape)
    assert (result.result, result.ranks, result.page_seconds) == ("right", (2,), None)


@pytest.mark.parametrize(
    ("strike", "after", "changes", "expected"),
    [
        (Strike("kill", 2, step=STRUCK), 20.0, {"max_restarts": 2, "import_seconds": 60.0}, ("right", (2,))),
        (Strike("block", step=STRUCK), 0.5, {}, ("no effect", ())),
    ],
    ids=["while its launcher starts it again", "before the lease of a rank that hangs"],
)
def test_job_that_its_owner_ends_stays_ended(strike, after, changes, expected):
    result = played(strike, Strike("cancel", step=STRUCK, after=after), shape=replace(SHAPE, **changes))
    assert (result.result, result.ranks) == expected


@pytest.mark.parametrize(
    ("after", "expected"), [(0.0, ("right", ("rank_exited",), (2,))), (5.0, ("right", ("launcher_gone",), ()))]
)
def test_launcher_that_dies_with_its_ranks_while_no_agent_runs_looks_like_ranks_that_were_ended(after, expected):
    shape = replace(SHAPE, launcher="torchrun", hosts=2)
    restart = Strike("agent_restart", 2, step=STRUCK, seconds=3.0)
    result = played(Strike("launcher_dies", 2, step=STRUCK), replace(restart, after=after), shape=shape)
    assert (result.result, result.causes, result.ranks) == expected


def test_slow_rank_of_a_job_that_its_owner_ends_after_a_few_steps_is_not_missed():
    slow = Strike("slow", 2, step=STRUCK, amount=1.0)
    assert played(slow, Strike("cancel", step=STRUCK, after=3.0)).result == "no effect"
    assert played(slow, Strike("cancel", step=STRUCK, after=30.0)).result == "right"


def test_link_that_two_faults_cut_heals_once():
    pause = Strike("host_pause", 2, step=STRUCK, seconds=5.0)
    result = played(pause, Strike("link_cut", 2, step=STRUCK, seconds=5.0), shape=replace(SHAPE, hosts=2))
    assert (result.result, result.causes[0]) == ("right", "host_lost")


def test_second_fault_is_true_as_well():
    result = played(Strike("agent_restart", step=STRUCK, seconds=2.0), Strike("stop", 1, step=STRUCK + 2))
    assert (result.result, result.culprits, result.ranks) == ("right", (1,), (1,))


def test_ranks_that_the_owner_ended_do_not_vanish_one_after_the_other_after_a_restart_of_their_agent():
    """An agent decides once, when it begins, which of the dead ranks were left behind."""
    assert play(compose(829611, 305)).result == "quiet"


@pytest.mark.parametrize(("after", "result"), [(1.0, "no effect"), (3.0, "right"), (8.0, "right")])
def test_pair_that_is_cut_has_an_effect_once_packets_timed_out(after, result):
    """Without the loss of a carrier, only data that times out shows that the job stands, before its leases end."""
    two_hosts = replace(SHAPE, hosts=2)  # a lease of at least 3.75 s
    strikes = Strike("pair_cut", 0, peer=3, step=STRUCK), Strike("cancel", step=STRUCK, after=after)
    assert played(*strikes, shape=two_hosts).result == result


def test_uneven_steps_of_a_noisy_job_are_no_finding_about_the_pause_of_a_host():
    assert play(compose(829611, 127)).result == "no effect"


@pytest.mark.parametrize(("noise", "is_ordinary"), [("host_pause", True), ("jitter", False)])
def test_noise_of_a_job_is_a_finding_about_no_fault_but_jitter(noise, is_ordinary):
    shape = Shape(noise=0.3)
    strike = Strike(noise)
    truths = [truth_of(composed(strike, shape=shape), strike, 1.0, is_watched=True)]
    uneven = finding(cause="compute_jitter", ranks=(), hosts=())
    assert is_true_without_a_fault(shape, truths, uneven) is is_ordinary
    assert not is_true_without_a_fault(SHAPE, truths, uneven)


def test_fault_that_never_strikes_is_skipped_with_its_reason():
    result = played(Strike("kill", 1, step=10_000), shape=Shape(ranks=2, step_seconds=2.0))
    assert result.skipped == "no fault struck within 240 s"


def test_line_has_the_seed_and_the_truth():
    result = played(Strike("stop", 2, step=STRUCK))
    assert line(result).startswith("7:0 right: rank_frozen, rank 2; true: rank 2; stop of rank 2 at forward of step 70")


@pytest.mark.parametrize("num_plays", [12, pytest.param(46, marks=pytest.mark.slow)])
def test_random_compositions_have_no_wrong_name_no_silence_and_no_false_page(num_plays):
    plays = play_many(seed=18, first=0, num_plays=num_plays)
    assert not [line(result) for result in plays if result.result in (*NEVER, "broken")]


def test_job_that_hangs_while_it_is_asked_whether_it_moves_is_given_the_time_for_findings():
    """The rank that swallowed an exception reaches the barrier of the checkpoint a step early, 50 s later."""
    assert play(compose(143521, 349)).page_seconds is not None
