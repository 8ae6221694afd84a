"""Tests of the roles of a job: what the job names, the stages of a pipeline, and otherwise one role for all ranks."""

from dataclasses import replace

import pytest

from tests.build import job_steps, rank_state, snapshot
from tests.steps import changed
from zmon.job.roles import roles

MIB = 1 << 20
STAGES = {"1": (0, 1), "2": (2, 3)}
ALIKE = [(0, 1, 2, 3)]


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


def with_unused_group(job_, *members):
    """Return the job whose ranks with these numbers have a group in which nothing was sent yet."""
    ranks = [
        replace(rank, sequences={**rank.sequences, "unused": 0}) if rank.rank in members else rank
        for rank in job_.ranks
    ]
    return replace(job_, ranks=tuple(ranks))


def with_roles(*words):
    states = [replace(rank_state(rank, world_size=len(words)), role=word) for rank, word in enumerate(words)]
    return snapshot(*states)


ROLES = {  # a job, and the ranks of its roles
    # the gradients are averaged within each stage
    "two stages with two replicas each": (job(4, STAGES, ("all_reduce",), MIB, MIB), [(0, 1), (2, 3)]),
    # the norm of the gradients is summed over all ranks
    "a group of all ranks joins no stages": (
        job(4, {"0": range(4), **STAGES}, ("all_reduce",), MIB, MIB), [(0, 1), (2, 3)]),
    "a group that is not used yet joins no stages": (
        with_unused_group(job(4, STAGES, ("all_reduce",), MIB, MIB), 0, 2), [(0, 1), (2, 3)]),
    "replicas join the tensor parallel groups of a stage": (
        job(8, {"1": (0, 1), "2": (2, 3), "3": (4, 5), "4": (6, 7), "5": (0, 2), "6": (1, 3), "7": (4, 6), "8": (5, 7)},
            ("all_reduce",), MIB, MIB), [(0, 1, 2, 3), (4, 5, 6, 7)]),
    "a pipeline without replicas": (job(3, {}, (), MIB), [(0,), (1,), (2,)]),
    "a pipeline, one of whose ranks has a group of its own": (job(3, {"5": (1,)}, (), MIB), [(0,), (1,), (2,)]),
    "a pipeline that sums a loss": (job(3, {"0": range(3)}, ("all_reduce",), MIB, 8), [(0,), (1,), (2,)]),
    "data parallel": (job(4, None, ("all_reduce",), 0, MIB), ALIKE),
    "data and tensor parallel": (job(4, STAGES, ("all_reduce",), 0, MIB), ALIKE),
    "a ring with gradients averaged over all ranks": (job(4, None, ("all_reduce",), MIB, MIB), ALIKE),
    "a rank in no group": (job(4, {"1": (0, 1, 2)}, ("all_reduce",), MIB, MIB), ALIKE),
    "first and last stage share a group": (
        job(4, {"0": range(4), **STAGES, "3": (0, 3)}, ("all_reduce",), MIB, MIB), ALIKE),
    "no step": (replace(job(4, {}, (), MIB), steps=()), ALIKE),
    "a rank is missing": (replace(job(4, {}, (), MIB), ranks=job(4).ranks[:3]), ALIKE),
    "the job names roles": (with_roles("encoder", "decoder", "encoder", "decoder"), [(0, 2), (1, 3)]),
    "the job names the same role": (with_roles("trainer", "trainer", "trainer", "trainer"), ALIKE),
    "the job does not name the role of a rank": (with_roles("a", "b", "a", ""), ALIKE),
}  # fmt: skip


@pytest.mark.parametrize(("job_", "ranks"), ROLES.values(), ids=ROLES)
def test_ranks_share_a_role_unless_their_work_differs(job_, ranks):
    assert [tuple(role.ranks) for role in roles(job_)] == ranks


def test_role_has_the_name_that_the_job_gives_it_or_its_ranks():
    first, second = roles(job(4, STAGES, ("all_reduce",), MIB, MIB))
    assert (first.name, second.stage) == ("ranks 0–1", "the stage of ranks 2–3")
    first, second = roles(job(4, {"1": (0, 2), "2": (1, 3)}, ("all_reduce",), MIB, MIB))
    assert (first.name, second.stage) == ("ranks 0, 2", "the stage of ranks 1, 3")
    first, second = roles(with_roles("encoder", "decoder", "encoder", "decoder"))
    assert (first.stage, second.name) == ("stage encoder", "decoder")
