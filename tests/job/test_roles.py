"""Tests of the roles of a job: what the job names, the stages of a pipeline, and otherwise one role for all ranks."""

from dataclasses import replace

import pytest

from tests.build import job_steps, rank_state, snapshot
from tests.steps import changed
from zmon.job.roles import roles

MIB = 1 << 20
STAGES = {"1": (0, 1), "2": (2, 3)}
ALIKE = [(0, 1, 2, 3)]


def job(size, groups=None, *, between=0, all_reduce=0):
    """Return a job in whose step each rank sends `between` bytes to other ranks, and these bytes by all_reduce.

    `groups`: the ranks of each process group, by its name; by default one group of all ranks.
    """
    groups = {"0": range(size)} if groups is None else groups
    ranks = [
        rank_state(rank, world_size=size, sequences={name: 5 for name, members in groups.items() if rank in members})
        for rank in range(size)
    ]
    sent = {"send": between, "recv": between, "all_reduce": all_reduce}
    (step,) = job_steps(1, *[{}] * size)
    columns = {op: (num_bytes,) * size for op, num_bytes in sent.items() if num_bytes}
    return replace(snapshot(*ranks), steps=(changed(step, sent_bytes=columns),))


def with_unused_group(job_, *members):
    """Return the job with one more group, of these ranks, that has no collective yet."""
    ranks = [
        replace(rank, sequences={**rank.sequences, "unused": 0}) if rank.rank in members else rank
        for rank in job_.ranks
    ]
    return replace(job_, ranks=tuple(ranks))


def with_roles(*words):
    """Return a job whose ranks name these roles; "": none."""
    states = [replace(rank_state(rank, world_size=len(words)), role=word) for rank, word in enumerate(words)]
    return snapshot(*states)


ROLES = {  # a job, and the ranks of its roles
    # the gradients are averaged within each stage
    "two stages with two replicas each": (job(4, STAGES, between=MIB, all_reduce=MIB), [(0, 1), (2, 3)]),
    # the norm of the gradients is summed over all ranks
    "a group of all ranks joins no stages": (
        job(4, {"0": range(4), **STAGES}, between=MIB, all_reduce=MIB), [(0, 1), (2, 3)]),
    "a group that is not used yet joins no stages": (
        with_unused_group(job(4, STAGES, between=MIB, all_reduce=MIB), 0, 2), [(0, 1), (2, 3)]),
    "replicas join the tensor parallel groups of a stage": (
        job(8, {"1": (0, 1), "2": (2, 3), "3": (4, 5), "4": (6, 7), "5": (0, 2), "6": (1, 3), "7": (4, 6), "8": (5, 7)},
            between=MIB, all_reduce=MIB), [(0, 1, 2, 3), (4, 5, 6, 7)]),
    "a pipeline without replicas": (job(3, {}, between=MIB), [(0,), (1,), (2,)]),
    "a pipeline, one of whose ranks has a group of its own": (job(3, {"5": (1,)}, between=MIB), [(0,), (1,), (2,)]),
    "a pipeline that sums a loss": (job(3, {"0": range(3)}, between=MIB, all_reduce=8), [(0,), (1,), (2,)]),
    "data parallel": (job(4, all_reduce=MIB), ALIKE),
    "data and tensor parallel": (job(4, STAGES, all_reduce=MIB), ALIKE),
    "a ring with gradients averaged over all ranks": (job(4, between=MIB, all_reduce=MIB), ALIKE),
    "a rank in no group": (job(4, {"1": (0, 1, 2)}, between=MIB, all_reduce=MIB), ALIKE),
    "first and last stage share a group": (
        job(4, {"0": range(4), **STAGES, "3": (0, 3)}, between=MIB, all_reduce=MIB), ALIKE),
    "no step": (replace(job(4, {}, between=MIB), steps=()), ALIKE),
    "a rank is missing": (replace(job(4, {}, between=MIB), ranks=job(4).ranks[:3]), ALIKE),
    "the job names roles": (with_roles("encoder", "decoder", "encoder", "decoder"), [(0, 2), (1, 3)]),
    "the job names the same role": (with_roles("trainer", "trainer", "trainer", "trainer"), ALIKE),
    "the job does not name the role of a rank": (with_roles("a", "b", "a", ""), ALIKE),
}  # fmt: skip


@pytest.mark.parametrize(("job_", "ranks"), ROLES.values(), ids=ROLES)
def test_ranks_share_a_role_unless_their_work_differs(job_, ranks):
    assert [tuple(role.ranks) for role in roles(job_)] == ranks


ALL_REDUCE_IN_PAIRS = {"1": (0, 2), "2": (1, 3)}
NAMES = {  # a job of two roles, their names, and the names of their stages
    "neighbours": (
        job(4, STAGES, between=MIB, all_reduce=MIB),
        ["ranks 0–1", "ranks 2–3"], ["the stage of ranks 0–1", "the stage of ranks 2–3"]),
    "not neighbours": (
        job(4, ALL_REDUCE_IN_PAIRS, between=MIB, all_reduce=MIB),
        ["ranks 0, 2", "ranks 1, 3"], ["the stage of ranks 0, 2", "the stage of ranks 1, 3"]),
    "named by the job": (
        with_roles("encoder", "decoder", "encoder", "decoder"),
        ["encoder", "decoder"], ["stage encoder", "stage decoder"]),
}  # fmt: skip


@pytest.mark.parametrize(("job_", "names", "stages"), NAMES.values(), ids=NAMES)
def test_role_has_the_name_that_the_job_gives_it_or_its_ranks(job_, names, stages):
    assert [role.name for role in roles(job_)] == names
    assert [role.stage for role in roles(job_)] == stages
