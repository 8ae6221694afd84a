"""Tests of watched jobs that do not import zmon. Their boxes agree with the jobs' own tallies.

In `make test` each job runs once, watched, and its outcome must equal the golden, which was recorded without zmon. Some
jobs run under `zmon run`, as users start them. The ranks of the other jobs are forks that are watched in the same way.
`make test-all` also runs the forks with the Python edge, and each job both under `zmon run` and without zmon. The run
without zmon is compared with the golden.
"""

from dataclasses import replace

import pytest

from tests.jobs import golden
from tests.jobs.conftest import Job, run_both_ways, run_watched

UNDER_ZMON_RUN = (Job("ddp_accumulate", data=True),)
BOTH_WAYS = Job("no_group", ranks=1, torchrun=False, data=True)
IN_FORKS = (
    Job("ddp_accumulate", ("--bucket-cap-mb", "0.05"), data=True),
    Job("fsdp2"),
    Job("dtensor"),
    Job("eval_checkpoint"),
    Job("dataloader_workers", data=True),
)
SLOW = (
    Job("spawned", torchrun=False),
    Job("dataloader_workers", ranks=1, data=True),
    Job("dataloader_workers", ("--context", "spawn"), data=True),
)
RUNS = (
    pytest.param((BOTH_WAYS, "both ways"), id=f"{BOTH_WAYS}"),
    *(pytest.param((job, "zmon run"), id=f"{job}", marks=pytest.mark.slow) for job in UNDER_ZMON_RUN),
    *(pytest.param((job, "forks"), id=f"{job}-forks") for job in IN_FORKS),
    *(
        pytest.param((job, "forks, Python edge"), id=f"{job}-forks-python-edge", marks=pytest.mark.slow)
        for job in IN_FORKS
    ),
    *(
        pytest.param((job, "both ways"), id=f"{job}-both-ways", marks=pytest.mark.slow)
        for job in (*UNDER_ZMON_RUN, *IN_FORKS, *SLOW)
    ),
)
ZYGOTES = {"forks": "torch_zygote", "forks, Python edge": "torch_zygote_of_python_edge"}
RAISING = Job("raising")


@pytest.fixture(scope="module", params=RUNS)
def comparison(request, tmp_path_factory):
    """A watched run of each job, and its outcome without zmon."""
    job, mode = request.param
    directory = tmp_path_factory.mktemp("job")
    if mode == "both ways":
        return run_both_ways(job, directory)
    zygote = ZYGOTES.get(mode)
    return run_watched(job, directory, request.getfixturevalue(zygote) if zygote else None)


@pytest.fixture(scope="module", params=["zmon run", pytest.param("both ways", marks=pytest.mark.slow)])
def failed_comparison(request, tmp_path_factory):
    """A run of the job whose rank 1 raises; never in forks, where its traceback would have more frames."""
    directory = tmp_path_factory.mktemp("raising")
    return run_watched(RAISING, directory) if request.param == "zmon run" else run_both_ways(RAISING, directory)


def lines_of_rank_1(outcome):
    return [line for line in outcome.stderr if line.startswith("[rank1]:")]


def test_each_rank_and_no_other_process_has_a_box(comparison):
    """No launcher, no worker of a DataLoader and no parent of spawned ranks has a box."""
    assert {str(path) for path in comparison.box_files} == {
        f"job/0/rank-{rank}.box" for rank in range(comparison.job.ranks)
    }


def test_box_has_the_identity_of_its_rank(comparison):
    written = {
        rank: (box.identity.rank, box.identity.world_size, box.identity.pid) for rank, box in comparison.boxes.items()
    }
    expected = {rank: (rank, comparison.job.ranks, tally["pid"]) for rank, tally in comparison.watched.tallies.items()}
    assert written == expected


def test_steps_in_the_box_equal_the_tally(comparison):
    counted = {rank: tally["steps"] for rank, tally in comparison.watched.tallies.items()}
    assert {rank: box.totals.steps for rank, box in comparison.boxes.items()} == counted
    assert {rank: len(box.records) for rank, box in comparison.boxes.items()} == counted


def test_collectives_and_bytes_in_the_box_equal_the_tally(comparison):
    counted = {rank: tally["ops"] for rank, tally in comparison.watched.tallies.items()}
    assert {rank: ops_of(box, counted[rank]) for rank, box in comparison.boxes.items()} == counted


def ops_of(box, counted):
    """Return the collectives in a box as the tally has them: count, bytes sent, bytes received.

    Sizes that the job itself cannot know are None.
    """
    ops = {}
    for op, total in box.totals.measures.ops.items():
        counted_sizes = counted.get(op, [0, 0, 0])[1:]
        sizes = (total.sent_bytes, total.received_bytes)
        ops[op] = [
            total.count,
            *(None if counted_size is None else size for size, counted_size in zip(sizes, counted_sizes, strict=True)),
        ]
    return ops


def test_no_record_was_dropped(comparison):
    assert {rank: box.totals.dropped_records for rank, box in comparison.boxes.items()} == dict.fromkeys(
        range(comparison.job.ranks), 0
    )


def test_box_has_time_in_the_phases_of_the_job(comparison):
    expected = {"backward", "optimizer"} | ({"data"} if comparison.job.data else set())
    missing = {rank: expected - box.totals.measures.phases.keys() for rank, box in comparison.boxes.items()}
    assert missing == {rank: set() for rank in range(comparison.job.ranks)}


def test_self_time_and_exposed_time_sum_to_each_step(comparison):
    for box in comparison.boxes.values():
        sums = [record.measures.self_seconds + record.measures.exposed_seconds for record in box.records]
        assert sums == pytest.approx([record.duration for record in box.records], abs=1e-9)
    assert comparison.boxes


def test_last_activity_of_a_successful_job_is_done(comparison):
    assert {rank: box.activity for rank, box in comparison.boxes.items()} == dict.fromkeys(
        range(comparison.job.ranks), "done"
    )


def test_box_has_the_activity_of_the_tally_while_the_job_runs(comparison):
    """Each reading of a box during an activity of the tally has this activity."""
    wrong = []
    for rank, tally in comparison.watched.tallies.items():
        for activity, begin, end in tally["activities"]:
            readings = [r for r in comparison.readings if r.rank == rank and begin <= r.before and r.after <= end]
            wrong += [(rank, activity, reading.activity) for reading in readings if reading.activity != activity]
    assert wrong == []


def test_only_ranks_that_evaluate_or_save_have_these_activities(comparison):
    """Ranks that wait for an evaluation or a checkpoint of another rank stay in training."""
    activities = {"eval", "checkpoint"}
    counted = {(rank, spent[0]) for rank, tally in comparison.watched.tallies.items() for spent in tally["activities"]}
    read = {(reading.rank, reading.activity) for reading in comparison.readings}
    assert {pair for pair in read if pair[1] in activities} == {pair for pair in counted if pair[1] in activities}


def test_exit_code_is_0_with_and_without_zmon(comparison):
    assert (comparison.plain.exit_code, comparison.watched.exit_code) == (0, 0)


def test_output_equals_the_output_without_zmon(comparison):
    """The output is equal to that of a run without zmon. Compared with a golden, losses may differ by rounding."""
    if comparison.plain_is_golden:
        golden.assert_same_output(comparison.watched, comparison.plain)
    else:
        assert sorted(comparison.watched.stdout) == sorted(comparison.plain.stdout)
        assert sorted(comparison.watched.stderr) == sorted(comparison.plain.stderr)
        golden.check(str(comparison.job), comparison.plain)


def test_tally_equals_the_tally_without_zmon(comparison):
    assert comparison.watched.done == comparison.plain.done
    assert comparison.watched.tallies.keys() == set(range(comparison.job.ranks))


def test_exit_code_of_a_failing_job_equals_the_code_without_zmon(failed_comparison):
    assert failed_comparison.plain.exit_code != 0
    assert failed_comparison.watched.exit_code == failed_comparison.plain.exit_code


def test_traceback_of_a_failing_rank_equals_that_without_zmon(failed_comparison):
    """Only the output of rank 1 is compared. Rank 0 may be ended before it prints, because its peer died."""
    assert lines_of_rank_1(failed_comparison.plain)[-1] == "[rank1]: ValueError: batch 5 has no samples"
    if failed_comparison.plain_is_golden:
        assert golden.without_line_numbers(lines_of_rank_1(failed_comparison.watched)) == golden.without_line_numbers(
            lines_of_rank_1(failed_comparison.plain)
        )
    else:
        assert lines_of_rank_1(failed_comparison.watched) == lines_of_rank_1(failed_comparison.plain)
        golden.check(str(RAISING), replace(failed_comparison.plain, stderr=lines_of_rank_1(failed_comparison.plain)))


def test_box_of_a_failing_rank_has_its_last_words(failed_comparison):
    box = failed_comparison.boxes[1]
    assert (box.words.kind, box.words.type, box.words.message) == (
        "exception",
        "builtins.ValueError",
        "batch 5 has no samples",
    )
    assert (box.activity, box.totals.steps) == ("train", 4)
