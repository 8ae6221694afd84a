"""Jobs that know nothing of zmon, under `zmon run`: the boxes say what the jobs counted of themselves.

In `make test` each job runs once, watched, and does what its golden says it does without zmon. Some run under
`zmon run` as people start them, the ranks of the others are forks that are watched in the same way. `make test-all`
runs every job under `zmon run` and without it, and compares the run without it with the golden.
"""

from dataclasses import replace

import pytest

from tests.jobs import golden
from tests.jobs.conftest import Job, run_both_ways, run_watched

AS_STARTED = (Job("ddp_accumulate", data=True),)
BOTH_WAYS = Job("no_group", ranks=1, torchrun=False, data=True)
IN_FORKS = (
    Job("ddp_accumulate", ("--bucket-cap-mb", "0.05"), data=True),
    Job("fsdp2"),
    Job("moe_all_to_all"),
    Job("dtensor"),
    Job("pipeline"),
    Job("eval_checkpoint"),
    Job("dataloader_workers", data=True),
    Job("dataloader_workers", ranks=1, data=True),
    Job("gan"),
)
SLOW = (
    Job("spawned", torchrun=False),
    Job("dataloader_workers", ("--context", "spawn"), data=True),
)
RUNS = (
    pytest.param((BOTH_WAYS, "both ways"), id=f"{BOTH_WAYS}"),
    *(pytest.param((job, "zmon run"), id=f"{job}") for job in AS_STARTED),
    *(pytest.param((job, "forks"), id=f"{job}-forks") for job in IN_FORKS),
    *(
        pytest.param((job, "both ways"), id=f"{job}-both-ways", marks=pytest.mark.slow)
        for job in (*AS_STARTED, *IN_FORKS, *SLOW)
    ),
)
RAISING = Job("raising")


@pytest.fixture(scope="module", params=RUNS)
def ran(request, tmp_path_factory, torch_zygote):
    """The job has run watched, and without zmon where both ways are wanted."""
    job, how = request.param
    room = tmp_path_factory.mktemp("job")
    if how == "both ways":
        return run_both_ways(job, room)
    return run_watched(job, room, torch_zygote if how == "forks" else None)


@pytest.fixture(scope="module", params=["zmon run", pytest.param("both ways", marks=pytest.mark.slow)])
def failed(request, tmp_path_factory):
    """The job whose rank 1 raises has run; in forks its traceback would have more frames."""
    room = tmp_path_factory.mktemp("raising")
    return run_watched(RAISING, room) if request.param == "zmon run" else run_both_ways(RAISING, room)


def rank_1(outcome):
    return [line for line in outcome.stderr if line.startswith("[rank1]:")]


def test_every_rank_and_nobody_else_leaves_a_box(ran):
    """No launcher, no worker of a DataLoader, no parent of spawned ranks."""
    assert {str(path) for path in ran.box_files} == {f"job/0/rank-{rank}.box" for rank in range(ran.job.ranks)}


def test_box_names_the_rank_that_wrote_it(ran):
    written = {rank: (box.identity.rank, box.identity.world_size, box.identity.pid) for rank, box in ran.boxes.items()}
    told = {rank: (rank, ran.job.ranks, tally["pid"]) for rank, tally in ran.watched.tallies.items()}
    assert written == told


def test_steps_are_those_the_job_counted(ran):
    told = {rank: tally["steps"] for rank, tally in ran.watched.tallies.items()}
    assert {rank: box.totals.steps for rank, box in ran.boxes.items()} == told
    assert {rank: len(box.records) for rank, box in ran.boxes.items()} == told


def test_collectives_and_their_bytes_are_those_the_job_counted(ran):
    told = {rank: tally["ops"] for rank, tally in ran.watched.tallies.items()}
    assert {rank: ops_of(box, told[rank]) for rank, box in ran.boxes.items()} == told


def ops_of(box, told):
    """As the job wrote them: count, bytes sent and received, without the bytes that the job cannot know."""
    found = {}
    for op, total in box.totals.measures.ops.items():
        known = told.get(op, [0, 0, 0])
        sizes = (total.sent_bytes, total.received_bytes)
        found[op] = [
            total.count,
            *(None if told is None else size for size, told in zip(sizes, known[1:], strict=True)),
        ]
    return found


def test_every_call_was_understood(ran):
    assert {rank: box.totals.dropped_records for rank, box in ran.boxes.items()} == dict.fromkeys(
        range(ran.job.ranks), 0
    )


def test_time_was_spent_in_the_phases_that_the_job_has(ran):
    expected = {"backward", "optimizer"} | ({"data"} if ran.job.data else set())
    missing = {rank: expected - box.totals.measures.phases.keys() for rank, box in ran.boxes.items()}
    assert missing == {rank: set() for rank in range(ran.job.ranks)}


def test_phases_and_collectives_sum_to_each_step(ran):
    for box in ran.boxes.values():
        sums = [record.measures.self_seconds + record.measures.exposed_seconds for record in box.records]
        assert sums == pytest.approx([record.duration for record in box.records], abs=1e-9)
    assert ran.boxes


def test_job_that_ended_well_is_done(ran):
    assert {rank: box.activity for rank, box in ran.boxes.items()} == dict.fromkeys(range(ran.job.ranks), "done")


def test_boxes_say_live_what_the_job_is_there_for(ran):
    """Each look at a box that falls into a time of which the job says for certain what it did."""
    wrong = []
    for rank, tally in ran.watched.tallies.items():
        for activity, begin, end in tally["activities"]:
            looks = [look for look in ran.looks if look.rank == rank and begin <= look.before and look.after <= end]
            wrong += [(rank, activity, look.activity) for look in looks if look.activity != activity]
    assert wrong == []


def test_only_ranks_that_evaluate_or_save_are_ever_seen_to(ran):
    """Those that wait meanwhile go on to train, and so does whoever switches gradients off in training."""
    known = {"eval", "checkpoint"}
    told = {(rank, spent[0]) for rank, tally in ran.watched.tallies.items() for spent in tally["activities"]}
    seen = {(look.rank, look.activity) for look in ran.looks}
    assert {each for each in seen if each[1] in known} == {each for each in told if each[1] in known}


def test_exit_code_is_the_jobs(ran):
    assert (ran.plain.exit_code, ran.watched.exit_code) == (0, 0)


def test_job_says_what_it_says_without_zmon(ran):
    """To the letter where it just ran without zmon; the losses of a golden to rounding."""
    if ran.plain_is_golden:
        golden.assert_same_output(ran.watched, ran.plain)
    else:
        assert sorted(ran.watched.stdout) == sorted(ran.plain.stdout)
        assert sorted(ran.watched.stderr) == sorted(ran.plain.stderr)
        golden.check(str(ran.job), ran.plain)


def test_job_does_what_it_does_without_zmon(ran):
    assert ran.watched.done == ran.plain.done
    assert ran.watched.tallies.keys() == set(range(ran.job.ranks))


def test_failing_job_ends_with_the_exit_code_it_has_without_zmon(failed):
    assert failed.plain.exit_code != 0
    assert failed.watched.exit_code == failed.plain.exit_code


def test_traceback_of_a_failing_rank_is_the_one_it_has_without_zmon(failed):
    """Rank 0, whose peer is gone, has time for its own traceback or not; rank 1 always has."""

    assert rank_1(failed.plain)[-1] == "[rank1]: ValueError: batch 5 has no samples"
    if failed.plain_is_golden:
        assert golden.without_line_numbers(rank_1(failed.watched)) == golden.without_line_numbers(rank_1(failed.plain))
    else:
        assert rank_1(failed.watched) == rank_1(failed.plain)
        golden.check(str(RAISING), replace(failed.plain, stderr=rank_1(failed.plain)))


def test_box_of_a_failing_rank_holds_its_last_words(failed):
    box = failed.boxes[1]
    assert (box.words.kind, box.words.type, box.words.message) == (
        "exception",
        "builtins.ValueError",
        "batch 5 has no samples",
    )
    assert (box.activity, box.totals.steps) == ("train", 4)
