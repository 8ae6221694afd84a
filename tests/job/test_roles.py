"""Tests of the roles of a job: what the job names, the stages of a pipeline, and otherwise one role for all ranks."""

from dataclasses import replace

import pytest

from tests.build import job_steps, rank_state, snapshot
from tests.steps import changed
from zmon.job.roles import roles

MIB = 1 << 20


def job(size, groups=None, ops=(), between=0, collective=0, **changes):
    """Return a job whose ranks are in process groups, and send `between` bytes to other ranks in each step.

    `groups` maps the name of a group to its ranks; `collective` bytes go through each of the other ops.
    """
    groups = {"0": range(size)} if groups is None else groups
    ranks = [
        rank_state(rank, world_size=size, sequences={name: 5 for name, members in groups.items() if rank in members})
        for rank in range(size)
    ]
    names = {**dict.fromkeys(ops, collective), **({"send": between, "recv": between} if between else {})}
    (step,) = job_steps(1, *[{}] * size)
    columns = {name: (sent,) * size for name, sent in names.items()}
    return replace(snapshot(*ranks), steps=(changed(step, sent_bytes=columns),), **changes)


def named(*words):
    states = [replace(rank_state(rank, world_size=len(words)), role=word) for rank, word in enumerate(words)]
    return snapshot(*states)


def ranks_of(job_):
    return [tuple(role.ranks) for role in roles(job_)]


def test_ranks_with_different_groups_and_transfers_between_them_are_stages():
    """Two stages with two replicas each: the gradients are averaged within each stage."""
    stages = roles(job(4, {"1": (0, 1), "2": (2, 3)}, ("all_reduce",), MIB, MIB))
    assert [(role.name, role.ranks) for role in stages] == [("ranks 0–1", (0, 1)), ("ranks 2–3", (2, 3))]
    assert stages[1].stage == "the stage of ranks 2–3"


def test_group_of_all_ranks_does_not_join_the_stages():
    """The norm of the gradients is summed over all ranks."""
    groups = {"0": range(4), "1": (0, 1), "2": (2, 3)}
    assert ranks_of(job(4, groups, ("all_reduce",), MIB, MIB)) == [(0, 1), (2, 3)]


def test_tensor_parallel_groups_of_a_stage_are_joined_by_their_replicas():
    tensor = {"1": (0, 1), "2": (2, 3), "3": (4, 5), "4": (6, 7)}
    replicas = {"5": (0, 2), "6": (1, 3), "7": (4, 6), "8": (5, 7)}
    stages = ranks_of(job(8, {**tensor, **replicas}, ("all_reduce",), MIB, MIB))
    assert stages == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_each_rank_of_a_pipeline_without_replicas_is_a_stage():
    assert ranks_of(job(3, {}, (), MIB)) == [(0,), (1,), (2,)]
    assert ranks_of(job(3, {"0": range(3)}, ("all_reduce",), MIB, 8)) == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    "alike",
    [
        job(4, None, ("all_reduce",), 0, MIB),
        job(4, {"1": (0, 1), "2": (2, 3)}, ("all_reduce",), 0, MIB),
        job(4, {"0": range(4)}, ("all_reduce",), MIB, MIB),
        job(4, {"1": (0, 1, 2)}, ("all_reduce",), MIB, MIB),
        job(4, {"0": range(4), "1": (0, 1), "2": (2, 3), "3": (0, 3)}, ("all_reduce",), MIB, MIB),
        replace(job(4, {}, (), MIB), steps=()),
        replace(job(4, {}, (), MIB), ranks=job(4).ranks[:3]),
    ],
    ids=[
        "data parallel",
        "data and tensor parallel",
        "ring with gradients averaged over all ranks",
        "a rank in no group",
        "first and last stage share a group",
        "no step",
        "a rank is missing",
    ],
)
def test_ranks_have_one_role_if_in_doubt(alike):
    assert ranks_of(alike) == [(0, 1, 2, 3)]


def test_roles_that_the_job_names_count():
    stages = roles(named("encoder", "decoder", "encoder", "decoder"))
    assert [(role.name, role.ranks) for role in stages] == [("encoder", (0, 2)), ("decoder", (1, 3))]
    assert stages[0].stage == "stage encoder"


@pytest.mark.parametrize("words", [("trainer",) * 3, ("a", "b", "")], ids=["the same", "one is unknown"])
def test_roles_count_only_if_all_ranks_name_one_and_they_differ(words):
    assert ranks_of(named(*words)) == [(0, 1, 2)]
