"""Tests of the limits of numbers and names that a job or an agent sends."""

import msgspec
import pytest

from zmon.schema.limits import MAX_WORLD_SIZE, JobId, Seconds, Whole, check_job_id, check_rank, host_name
from zmon.schema.names import JOB_ID

JOB_IDS = ["job", "a.b_c-D9", "x" * 64]
NO_JOB_IDS = ["", ".", "..", "a/b", "/../../../tmp/x", "a\n", "a b", "é", "x" * 65, "a\0", "\x1b[2J"]


def test_sizes_up_to_the_limit_are_accepted():
    check_rank(0, 1)
    check_rank(MAX_WORLD_SIZE - 1, MAX_WORLD_SIZE)


@pytest.mark.parametrize(
    ("rank", "world_size", "reason"),
    [
        (0, 2_000_000_000, "claims a world of 2,000,000,000 ranks"),
        (0, MAX_WORLD_SIZE + 1, "claims a world"),
        (0, 0, "claims a world"),
        (0, -1, "claims a world"),
        (4, 4, "claims to be rank 4 of 4"),
        (-1, 4, "claims to be rank -1"),
    ],
)
def test_impossible_rank_or_size_is_refused(rank, world_size, reason):
    with pytest.raises(ValueError, match=reason):
        check_rank(rank, world_size)


@pytest.mark.parametrize("job_id", JOB_IDS)
def test_valid_job_id_is_accepted_in_box_and_report(job_id):
    assert JOB_ID.fullmatch(job_id)
    check_job_id(job_id)
    assert msgspec.json.decode(msgspec.json.encode(job_id), type=JobId) == job_id


@pytest.mark.parametrize("job_id", NO_JOB_IDS)
def test_invalid_job_id_is_refused_in_box_and_report(job_id):
    assert not JOB_ID.fullmatch(job_id)
    with pytest.raises(ValueError, match="job id"):
        check_job_id(job_id)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(job_id), type=JobId)


@pytest.mark.parametrize(("text", "type_"), [("1" * 30, Whole), ("-" + "1" * 30, Whole), ("1e300", Seconds)])
def test_number_beyond_its_limit_is_refused(text, type_):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text.encode(), type=type_)


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("node-1.cluster:2", "node-1.cluster:2"),
        ("a b;rm -rf /", "a_b_rm_-rf__"),
        ("$(id)`id`", "__id__id_"),
        ("Müller", "Müller"),
        ("n\udcff\x1b\n", "n___"),
        ("", "unknown"),
        ("x" * 999, "x" * 253),
    ],
)
def test_name_of_a_host_can_be_part_of_a_command(name, result):
    assert host_name(name) == result
