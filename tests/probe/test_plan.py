"""Tests of the plan of the trainer, which rank 0 writes beside its box in a file of bounded size."""

import contextlib
import json

import pytest

from tests.probe.reading import read_box, run_rank, zmon_lines
from zmon.box.reader import BoxReader
from zmon.errors import UsageError
from zmon.probe.plan_file import COUNTS, encode_plan
from zmon.schema.plan import MAX_PLAN_BYTES

LOAD = {"lookups": 20_000, "sent_bytes": 12_345_678, "received_bytes": 12_345_678, "memory_bytes": 12_345_678_901,
        "seconds": 0.0123456789}  # fmt: skip

PLAN = 'zmon.plan(ranks=[{"lookups": 7, "tables": ["t3", 4]}, {"seconds": 0.5}], samples_per_second=1e6)'


def read_plan_file(rank):
    """Return the content of the plan file of a rank."""
    return json.loads(rank.box.with_name("plan.json").read_text())


def test_rank_0_writes_its_plan_beside_its_box(start_rank):
    rank = run_rank(start_rank, PLAN, world_size=2)
    assert rank.output == ""
    file = read_plan_file(rank)
    with contextlib.closing(BoxReader(rank.box)) as reader:
        assert file["run_uid"] == reader.identity().run_uid
    assert file["plan"]["lookups"] == [7, None]
    assert file["plan"]["seconds"] == [None, 0.5]
    assert (file["plan"]["tables"], file["plan"]["num_tables"]) == ([["t3", "4"], []], [2, None])
    assert file["plan"]["totals"] == {"samples_per_second": 1e6}
    path = rank.box.with_name("plan.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert {entry.name for entry in path.parent.iterdir()} == {"plan.json", "rank-0.box"}


def test_steps_need_no_prediction_for_the_ranks(start_rank):
    rank = run_rank(start_rank, "zmon.plan(steps=50_000)", world_size=2)
    assert rank.output == ""
    assert read_plan_file(rank)["plan"] == {
        **{name: [] for name in (*COUNTS, "seconds", "tables", "num_tables")}, "totals": {}, "steps": 50_000,
    }  # fmt: skip


def test_ranks_other_than_0_write_no_plan(start_rank):
    rank = run_rank(start_rank, f"{PLAN}\nwith zmon.step():\n    pass\n", number=1, world_size=2)
    assert (rank.output, read_box(rank.box).totals.dropped_records) == ("", 0)
    assert not rank.box.with_name("plan.json").exists()


MISUSE = {
    "ranks=[{}, {}]": "ranks has 2 entries: the job has 1 ranks",
    "ranks=7": "ranks is a int",
    "ranks={0: {}}": "ranks is a dict",
    "ranks=[None]": "ranks[0] is a NoneType",
    "ranks=[{'look-ups': 1}]": "ranks[0] has the unknown key look-ups: the keys are lookups, sent_bytes",
    "ranks=[{'lookups': -1}]": "ranks[0]['lookups'] is not a valid amount",
    "ranks=[{'seconds': float('nan')}]": "ranks[0]['seconds'] is not a valid amount",
    "ranks=[{'memory_bytes': 'many'}]": "ranks[0]['memory_bytes'] is not a valid amount",
    "ranks=[{'sent_bytes': 10**400}]": "ranks[0]['sent_bytes'] is not a valid amount: it must be a number, 0 or more,",
    "ranks=[{'tables': 't3'}]": "ranks[0]['tables'] is a str: it must be a list of names",
    "ranks=[{'tables': [None]}]": "a table is a NoneType",
    "ranks=[{}], speed='high'": "the total speed is not a valid amount: it must be a number, at most",
    "": "ranks is missing: a plan has an entry for each rank, or only the number of steps",
    "steps=0": "steps is not a valid amount: it must be a number, 1 or more, and at most",
    "ranks=[{}], **{str(n): n for n in range(99)}": "there are 99 totals",
}


def test_invalid_plan_is_dropped_and_the_previous_plan_is_kept(start_rank):
    calls = "".join(f"zmon.plan({arguments})\n" for arguments in ("ranks=[{'lookups': 7}]", *MISUSE))
    rank = run_rank(start_rank, f"{calls}with zmon.step():\n    pass\n")
    for line, part in zip(zmon_lines(rank), MISUSE.values(), strict=True):
        assert line.startswith(f"zmon: zmon.plan(): {part}")
    assert read_box(rank.box).totals.dropped_records == len(MISUSE)
    assert read_plan_file(rank)["plan"]["lookups"] == [7]


def test_plan_without_space_on_disk_is_reported_and_leaves_no_file(start_rank):
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    plan = "zmon.plan(ranks=[{'tables': [f't{number}' for number in range(1000)]}])\nprint('trains on')"
    rank = run_rank(start_rank, limit + plan)
    complaint, rest = rank.output.splitlines()
    assert complaint.startswith(f"zmon: cannot write the plan {rank.box.with_name('plan.json')}")
    assert rest == "trains on"
    assert [entry.name for entry in rank.box.parent.iterdir()] == ["rank-0.box"]


def test_name_of_a_total_that_json_cannot_encode_is_stored_with_question_marks():
    body = encode_plan("uid", 1, [{}], {"speed\ud800": 1.0})
    assert json.loads(body)["plan"]["totals"] == {"speed?": 1.0}


@pytest.mark.parametrize("name", ["table-of-a-long-name-", "\u8868", "\ud800\n"])
@pytest.mark.parametrize("ranks", [8, 1024])
def test_plan_file_is_bounded_and_has_the_number_of_all_tables(ranks, name):
    tables = [f"{name}{number}" * 3 for number in range(2000)]
    body = encode_plan("uid", ranks, [{**LOAD, "tables": tables}] * ranks, {})
    assert len(body) <= MAX_PLAN_BYTES
    plan = json.loads(body)["plan"]
    assert plan["num_tables"] == [2000] * ranks
    assert all(0 < len(names) < 2000 and all(name.isprintable() for name in names) for names in plan["tables"])
    assert plan["lookups"] == [20_000] * ranks


LONG_NAME = {**LOAD, "tables": ["\u8868" * 40]}


def test_plan_of_a_very_large_job_has_no_table_names():
    assert json.loads(encode_plan("uid", 1500, [LONG_NAME] * 1500, {}))["plan"]["tables"] == [[]] * 1500


def test_plan_that_is_too_large_without_names_is_refused():
    with pytest.raises(UsageError, match="5000 ranks take"):
        encode_plan("uid", 5000, [LONG_NAME] * 5000, {})


def test_totals_need_the_prediction_for_the_ranks():
    with pytest.raises(UsageError, match="ranks is missing"):
        encode_plan("uid", 8, None, {"speed": 1.0}, steps=9)
