"""Tests of the names of jobs whose users chose the same job id."""

from zmon.job.job_owners import JobOwners


def test_first_user_keeps_the_job_id():
    assert JobOwners().update([("train", 1), ("train", 2), ("eval", 2)]) == {
        ("train", 1): "train",
        ("train", 2): "train.uid2",
        ("eval", 2): "eval",
    }


def test_names_do_not_change_while_the_jobs_exist():
    owners = JobOwners()
    owners.update([("train", 2)])
    assert owners.update([("train", 1), ("train", 2)])["train", 2] == "train"
    assert owners.update([("train", 1)])["train", 1] == "train.uid1"
    owners.update([])
    assert owners.update([("train", 1)])["train", 1] == "train"


def test_name_that_a_third_user_has_taken_is_not_given_twice():
    names = JobOwners().update([("train", 1), ("train.uid2", 3), ("train", 2)])
    assert names["train", 2] == "train.uid2-2"
    long = "x" * 64
    names = JobOwners().update([(long, 1), (f"{'x' * 59}.uid2", 3), (long, 2)])
    assert len(set(names.values())) == 3
    assert max(map(len, names.values())) == 64
