"""Tests of the functions for trainers: they do not raise, and report each mistake once, in a single line."""

import contextlib
import re

import pytest

from tests.probe.reading import read_box, run_rank, zmon_lines
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.schema.measures import AMOUNT_MEASURES
from zmon.schema.names import ACTIVITIES, PHASES


def job_lines(rank):
    """Return the lines that the job itself printed in a rank."""
    return [line for line in rank.output.splitlines() if not line.startswith("zmon: ")]


def test_invalid_calls_do_not_raise_and_are_each_reported_once(start_rank):
    rank = run_rank(
        start_rank,
        """
        for _ in range(3):
            with zmon.step():
                zmon.phase("no such phase")
                with zmon.activity("lunch"):
                    pass
            zmon.report(loss="not a number")
            zmon.report(**{f"key-{n}": n for n in range(9)})
        zmon.work(samples="many")
        zmon.step("seven").__enter__()
        """,
    )
    lines = zmon_lines(rank)
    assert len(lines) == len(set(lines)) == 5
    assert f"use one of {', '.join(PHASES)}" in lines[0]
    assert f"use one of {', '.join(ACTIVITIES)}" in lines[1]


ATTACH = "from zmon.probe import attach_box\nprint(attach_box())"
CANNOT_CREATE = "zmon: cannot create the black box {directory}.*ZMON_BOX_DIR.*"
STEPS = "for _ in range(3):\n    with zmon.step():\n        zmon.phase('forward')\nprint('trained')"
SMALL_FILES = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
PRINTED = {  # script and environment → patterns of the lines that the rank prints; `{tmp}` is a folder with a file
    "calls before attach do nothing": (
        "with zmon.step(), zmon.activity('eval'):\n    zmon.phase('forward')\n    zmon.work(samples=1)\n"
        "zmon.report(loss=1.0)\nzmon.plan(ranks=[{}])\nimport os\nprint(os.path.exists('{tmp}/boxes'))",
        {}, ["False"],
    ),
    "second attach succeeds": (f"{ATTACH}\nprint(attach_box())", {}, ["True", "True"]),
    "ZMON_DISABLED prevents attach": (ATTACH, {"ZMON_DISABLED": "1"}, ["False"]),
    "no box in a regular file": (
        f"{ATTACH}\n{STEPS}", {"ZMON_BOX_DIR": "{tmp}/file"},
        [CANNOT_CREATE.format(directory="{tmp}/file"), "False", "trained"],
    ),
    "no box on a file system that may be a network": (
        f"{ATTACH}\n{STEPS}", {"ZMON_BOX_DIR": "/sys/zmon"},
        ["zmon: cannot use /sys/zmon for black boxes: it is on sysfs, .*ZMON_BOX_DIR.*", "False", "trained"],
    ),
    "no box that takes much of a small /dev/shm": (
        f"import os\nsize = os.statvfs('/dev/shm')\nos.environ['WORLD_SIZE'] = os.environ['LOCAL_WORLD_SIZE'] = "
        f"str(size.f_blocks * size.f_frsize // 3_000_000)\n{ATTACH}\n{STEPS}", {"ZMON_BOX_DIR": "/dev/shm/zmon-test"},
        ["zmon: cannot create black boxes in /dev/shm/zmon-test: .*", "False", "trained"],
    ),
    "no box on a full disk": (
        f"{SMALL_FILES}{ATTACH}\n{STEPS}", {"ZMON_BOX_DIR": "{tmp}/full"},
        [CANNOT_CREATE.format(directory="{tmp}/full"), "False", "trained"],
    ),
    "job id that is not valid": (
        ATTACH, {"ZMON_JOB_ID": "no/such id"}, ["zmon: the job id 'no/such id' is not usable.*", "False"]
    ),
    "labels that are too long are left out": (
        ATTACH.replace("attach_box()", "attach_box(labels=dict(note='x' * 3000))"), {},
        [".*at most 16 labels, with at most 128 bytes.*", "True"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("script", "env", "patterns"), PRINTED.values(), ids=PRINTED)
def test_script_continues_and_prints(start_rank, tmp_path, script, env, patterns):
    (tmp_path / "file").write_text("")
    env = {name: value.format(tmp=tmp_path) for name, value in env.items()}
    rank = start_rank("import zmon\n" + script.replace("{tmp}", str(tmp_path)), **env)
    assert rank.wait() == 0
    lines = rank.output.splitlines()
    assert len(lines) == len(patterns), lines
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern.replace("{tmp}", re.escape(str(tmp_path))), line)


def test_attach_writes_the_identity_of_the_rank(start_rank):
    rank = start_rank(
        "import os\nfrom zmon.probe import attach_box\nprint(attach_box(), os.getppid())",
        number=1,
        world_size=4,
        TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_MAX_RESTARTS="3",
        ZMON_LABELS="owner=ann, model=dlrm,nonsense",
    )
    assert rank.wait() == 0
    with contextlib.closing(BoxReader(rank.box)) as reader:
        identity = reader.identity()
    assert (identity.pid, identity.rank, identity.world_size, identity.job_id) == (rank.pid, 1, 4, "job")
    assert f"True {identity.launcher_pid}\n" == rank.output
    assert (identity.restart_count, identity.max_restarts) == (0, 3)
    assert identity.labels == {"owner": "ann", "model": "dlrm"}


def test_activity_that_fails_ends_without_a_checkpoint(start_rank):
    rank = run_rank(
        start_rank,
        """
        from zmon.schema.names import ACTIVITIES
        with zmon.step():
            pass
        for activity in ("checkpoint", "eval"):
            try:
                with zmon.activity(activity):
                    raise OSError("No space left on device")
            except OSError:
                print(ACTIVITIES[probe.current.activity])
        """,
    )
    assert rank.output == "train\ntrain\n"
    assert read_box(rank.box).totals.last_checkpoint_time is None


@pytest.mark.parametrize("edge", ["c", "python"])
def test_each_amount_that_a_job_declares_is_in_its_own_place(start_rank, edge):
    """The C edge binds the parameters of `zmon.work` by their position, which is that in the table of measures."""
    declared = [measure.name for measure in AMOUNT_MEASURES[: layout.NUM_DECLARED]]
    rank = run_rank(
        start_rank,
        f"""
        for number, name in enumerate({declared!r}, 1):
            dtype = {{"dtype": "float32"}} if name == "flops" else {{}}
            with zmon.step():
                zmon.work(**{{name: number}}, **dtype)
                zmon.work(**{{name: 10 * number}}, **dtype)
        print(*probe.current.ledger._amounts[:{len(declared)}])
        """,
        ZMON_EDGE=edge,
    )
    assert job_lines(rank) == [" ".join(str(11 * number) for number in range(1, len(declared) + 1))]


@pytest.mark.parametrize("edge", ["c", "python"])
def test_declared_operations_need_a_dtype_and_are_in_the_box_with_it(start_rank, edge):
    rank = run_rank(
        start_rank,
        """
        for number in range(4):
            with zmon.step():
                zmon.work(samples=1, flops=10**9, memory_traffic=500, dtype="bfloat16")
                zmon.work(samples=1, flops=2e9, dtype="bfloat16")
        for _ in range(2):
            zmon.work(flops=10**9)
            zmon.work(flops=10**9, dtype={"float32": 1.5})
        identity = probe._identity
        print(identity.flops_source, identity.flops_dtypes)
        _, _, flops, traffic = probe.current.ledger._amounts[:4]
        print(flops, traffic)
        zmon.work(flops=10**9, dtype={"float32": 0.25, "bfloat16": 0.75})
        print(probe._identity.flops_dtypes)
        """,
        ZMON_EDGE=edge,
    )
    assert job_lines(rank) == [
        "declared {'bfloat16': 1.0}", f"{12 * 10**9} 2000", "{'float32': 0.25, 'bfloat16': 0.75}"
    ]  # fmt: skip
    first, second = zmon_lines(rank)
    assert "zmon.work(flops=…, dtype=None) cannot be used" in first
    assert "float32" in second


@pytest.mark.parametrize("edge", ["c", "python"])
def test_odd_dtype_costs_the_operations_and_not_the_box_nor_the_samples(start_rank, edge):
    rank = run_rank(
        start_rank,
        """
        class Dtype:
            def __str__(self):
                return "torch.bfloat16"
        for dtype in ("bfloat16 (autocast)", {"bfloat16": "half"}, {f"dtype_{n}": 0.01 for n in range(40)}, None, 7.5):
            with zmon.step():
                zmon.work(samples=5, flops=10**9, memory_traffic=3, dtype=dtype)
        samples, _, flops, traffic = probe.current.ledger._amounts[:4]
        print(repr(probe._identity.flops_source), samples, flops, traffic)
        written = []
        probe.current.box.identity = written.append
        for _ in range(20):
            zmon.work(flops=10**9, dtype={"bfloat16": 0.5, "float32": 0.5})
        zmon.work(flops=10**9, dtype=Dtype())
        print(*(identity.flops_dtypes for identity in written))
        """,
        ZMON_EDGE=edge,
    )
    assert job_lines(rank) == ["'' 25 -1 15", "{'bfloat16': 0.5, 'float32': 0.5} {'bfloat16': 1.0}"]
