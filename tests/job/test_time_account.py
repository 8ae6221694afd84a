"""The causes of a job sum to its wall-clock, whatever it lives through and whenever somebody looks; unknown is told."""

from dataclasses import replace
from random import Random

import pytest

from tests.build import step_record
from tests.job.life import STEP, Life, rounded
from zmon.job.history import align
from zmon.job.time_account import Account

SEEDS = 40


@pytest.fixture
def life():
    return Life()


def test_init_steps_evaluation_and_checkpoint_have_what_they_took(life):
    life.wait(3)
    life.look()
    life.train(100)
    life.look()
    life.turn("eval")
    life.wait(5)
    life.look()
    life.wait(2)
    life.turn("checkpoint")
    life.wait(1)
    life.train(50)
    life.look()
    assert rounded(life.account) == {"init": 3, "forward": 1.5, "all_to_all": 1.5, "eval": 7, "checkpoint": 1}
    assert life.account.seconds == pytest.approx(life.waited)
    assert life.account.gpu_seconds["eval"] == pytest.approx(4 * 7)


def test_training_time_that_became_no_step_is_other(life):
    """A batch that was fetched, and then the rank evaluated."""
    life.train(10)
    life.wait(0.3)
    life.turn("eval")
    life.wait(1)
    life.look()
    assert rounded(life.account)["other"] == 0.3


def test_step_that_goes_on_is_counted_when_it_is_over(life):
    life.train(10)
    life.wait(0.015)
    life.look()
    assert life.account.seconds == pytest.approx(10 * STEP)


def test_stall_is_told_while_it_lasts_and_not_again_as_communication(life):
    life.train(100)
    life.look()
    for _ in range(30):
        life.wait(1)
        life.look(stalled=True)
    assert rounded(life.account)["stall"] == pytest.approx(30 - STEP)
    life.train(50)
    life.look(stalled=True)
    life.train(50)
    life.look()
    assert rounded(life.account) == pytest.approx({"forward": 2.0, "all_to_all": 2.0, "stall": 30}, abs=0.05)
    assert life.account.seconds == pytest.approx(life.waited)
    assert life.account.in_steps == pytest.approx(200 * STEP, abs=0.05)


def test_end_of_a_stall_whose_records_come_later_is_not_communication_either(life):
    life.train(100)
    life.look()
    life.wait(30)
    life.look(stalled=True)
    life.train(50)
    life.look(stalled=True, tell=False)
    life.look()
    assert rounded(life.account) == pytest.approx({"forward": 1.5, "all_to_all": 1.5, "stall": 30}, abs=0.05)


def test_finding_that_outlives_its_stall_makes_no_stall_of_steps(life):
    life.train(100)
    life.wait(2 * STEP)
    life.look(stalled=True)
    assert "stall" not in life.account.causes


def test_pause_of_all_ranks_in_one_step_of_many_is_no_imbalance(life):
    """Steps are short and one of sixteen is asked for, with the mean of them."""
    life.turn("train")
    quick = align(16, [step_record(16)] * 4)
    mean = align(16, [step_record(16, {"forward": 0.110}, {"all_to_all": 0.010})] * 4)
    life.steps, life.in_steps = 16, 16 * 0.120
    life.told = [replace(quick, stands_for=16, mean=mean)]
    life.look()
    assert life.account.causes.get("imbalance", 0.0) == 0.0
    assert sum(life.account.causes.values()) == pytest.approx(16 * 0.120)


def test_nothing_is_known_of_a_job_that_was_not_looked_at(life):
    assert life.account.goodput_ratio is None


def test_hub_that_was_away_for_a_while_counts_everything_once(life):
    life.train(100)
    life.look()
    life.turn("eval")
    life.wait(100)
    life.train(400)
    life.turn("eval")
    life.wait(50)
    life.told = life.told[-50:]
    life.look()
    assert life.account.seconds == pytest.approx(life.waited, abs=1.1)  # a second may still be told of
    assert rounded(life.account)["eval"] == 150


def test_steps_that_nobody_saw_are_unknown_and_not_like_those_that_were(life):
    """The hub came when the job had run for hours."""
    life.train(50_000)
    life.told = life.told[-50:]
    life.look()
    assert rounded(life.account)["forward"] == pytest.approx(0.5)
    assert rounded(life.account)["unknown"] == pytest.approx(999, abs=1.2)


def test_steps_wait_for_their_records_and_are_unknown_if_none_come(life):
    life.train(50)
    life.look(tell=False)
    assert life.account.seconds == 0
    life.turn("done")
    life.wait(6)
    life.look(tell=False)
    assert rounded(life.account) == {"unknown": 1.0}


def test_rank_that_leads_out_of_sight_costs_nothing(life):
    life.train(50)
    life.look()
    life.train(50)
    seen = life.state()
    hidden = replace(seen, ranks=seen.ranks[1:], unwatched=seen.ranks[:1])
    life.account.update(hidden, (), STEP, False)
    assert life.account.seconds == pytest.approx(50 * STEP)
    life.look()
    assert life.account.seconds == pytest.approx(life.waited)


def test_look_in_the_middle_of_a_turn_counts_nothing_twice(life):
    """The box's totals are newer than what it was seen to do."""
    life.turn("eval")
    life.wait(5)
    life.look()
    seen = life.state()
    between = {"eval": 5.05}
    torn = replace(seen, ranks=tuple(replace(r, between_seconds=between, open_seconds=0.0) for r in seen.ranks))
    life.account.update(torn, (), STEP, False)
    assert rounded(life.account)["eval"] == 5.05


@pytest.mark.parametrize("seed", range(SEEDS))
def test_causes_sum_to_wall_clock_whatever_happens(seed):
    """To 0.1 %, but for the step that goes on when it is looked at last."""
    chance, life = Random(seed), Life()
    for _ in range(60):
        what = chance.choice(["train"] * 4 + ["eval", "checkpoint", "stall", "die", "idle"])
        if what == "train":
            life.train(chance.randint(1, 200), phases={"forward": 0.007, "data": 0.003}, ops={"all_reduce": 0.01})
        elif what in ("eval", "checkpoint") and life.activity != "init":
            life.turn(what)
            life.wait(chance.uniform(0, 30))
        elif what == "stall" and life.activity == "train":
            for _ in range(chance.randint(1, 9)):
                life.wait(chance.uniform(0.2, 2))
                life.look(stalled=True)
            if chance.random() < 0.5:
                life.train(20)
                life.look(stalled=True)
        elif what == "die":
            life.look(tell=chance.random() < 0.5)
            life.wait(chance.uniform(0, 2))
            life.die()
            life.look()
            life.wait(chance.uniform(0, 10))
            life.begin(after=life.gone + chance.uniform(0, 60))
            life.wait(chance.uniform(0, 10))
        else:
            life.wait(chance.uniform(0, 1))
        if chance.random() < 0.7:
            life.look(tell=chance.random() < 0.8)
    life.train(100)
    life.look()
    assert life.account.seconds == pytest.approx(life.waited, rel=1e-3)
    assert all(seconds >= 0 for seconds in life.account.causes.values())


def test_causes_never_fall(life):
    """They are counters."""
    chance, before = Random(5), {}
    for _ in range(300):
        life.train(chance.randint(0, 3)) if chance.random() < 0.7 else life.turn(chance.choice(["eval", "checkpoint"]))
        life.wait(chance.uniform(0, 2))
        life.look(stalled=chance.random() < 0.3, tell=chance.random() < 0.5)
        assert all(life.account.causes[cause] >= seconds for cause, seconds in before.items())
        before = dict(life.account.causes)


def test_histogram_counts_a_step_in_the_bucket_whose_bound_it_does_not_pass():
    account = Account("job")
    steps = [align(n, [step_record(n, {"forward": s}, {})]) for n, s in enumerate((0.0005, 0.001, 0.0011, 100.0))]
    account.observe(steps, (0.001, 0.002, 65.536))
    account.observe([align(9, [step_record(9)], stands_for=8)], (0.001, 0.002, 65.536))
    assert account.histogram == [2, 1, 8, 1]
    assert account.histogram_seconds == pytest.approx(0.0005 + 0.001 + 0.0011 + 100 + 8 * 0.020)


def test_activity_of_a_newer_agent_has_what_it_took_under_its_own_word(life):
    life.wait(3)
    life.train(100)
    life.turn("compile")
    life.wait(5)
    life.look()
    assert rounded(life.account)["compile"] == 5
    life.wait(2)
    life.train(50)
    life.look()
    assert rounded(life.account) == {"init": 3, "forward": 1.5, "all_to_all": 1.5, "compile": 7}
    assert life.account.seconds == pytest.approx(life.waited)
