"""Tests of the functions for trainers.

They do not raise. Each mistake is reported once, in a single line.
"""

import json

import pytest

from tests.boxes import read_records, read_totals
from zmon.box.reader import BoxReader

PREFIX = "zmon: "


def zmon_lines(rank):
    return [line for line in rank.output.splitlines() if line.startswith(PREFIX)]


def test_invalid_calls_do_not_raise_and_are_each_reported_once(start_rank):
    rank = start_rank("""
        import zmon
        from zmon import probe
        assert probe.attach_box(labels={"owner": "ann"})
        for _ in range(3):
            with zmon.step():
                zmon.phase("no such phase")
                with zmon.activity("lunch"):
                    pass
            zmon.report(loss="not a number")
            zmon.report(**{f"key-{n}": n for n in range(9)})
        zmon.work(samples="many")
        zmon.step("seven").__enter__()
        print("done")
    """)
    assert rank.wait() == 0
    lines = zmon_lines(rank)
    assert len(lines) == len(set(lines)) == 5
    assert "data, h2d, embedding, forward, backward, optimizer, other" in lines[0]
    assert "init, train, eval, checkpoint, done" in lines[1]


def test_calls_before_attach_do_nothing(start_rank):
    rank = start_rank("""
        import zmon
        with zmon.step(), zmon.activity("eval"):
            zmon.phase("forward")
            zmon.work(samples=1)
        zmon.report(loss=1.0)
        print("done")
    """)
    assert rank.wait() == 0
    assert rank.output == "done\n"
    assert not rank.boxes.exists()


def test_second_attach_succeeds_and_zmon_disabled_prevents_attach(start_rank):
    twice = start_rank("from zmon.probe import attach_box\nprint(attach_box(), attach_box())")
    assert twice.wait() == 0
    assert twice.output == "True True\n"
    disabled = start_rank("from zmon.probe import attach_box\nprint(attach_box())", ZMON_DISABLED="1")
    assert disabled.wait() == 0
    assert disabled.output == "False\n"


@pytest.mark.parametrize("trouble", ["regular file", "read-only", "full"])
def test_script_continues_if_no_box_can_be_created(start_rank, tmp_path, trouble):
    (tmp_path / "file").write_text("")
    directory = {"regular file": tmp_path / "file", "read-only": "/sys/zmon", "full": tmp_path / "full"}[trouble]
    rank = start_rank(
        f"""
        import resource, zmon
        from zmon import probe
        if {trouble!r} == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        print(probe.attach_box())
        for _ in range(3):
            with zmon.step():
                zmon.phase("forward")
        print("trained")
        """,
        ZMON_BOX_DIR=str(directory),
    )
    assert rank.wait() == 0
    complaint, *rest = rank.output.splitlines()
    assert complaint.startswith(f"zmon: cannot create the black box {directory}")
    assert "ZMON_BOX_DIR" in complaint
    assert rest == ["False", "trained"]


def test_invalid_job_id_is_reported_and_the_script_continues(start_rank):
    rank = start_rank("from zmon import probe\nprint(probe.attach_box())", ZMON_JOB_ID="no/such id")
    assert rank.wait() == 0
    complaint, attached = rank.output.splitlines()
    assert complaint.startswith("zmon: the job id 'no/such id' is not usable")
    assert attached == "False"


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
    reader = BoxReader(rank.box)
    identity = reader.identity()
    reader.close()
    assert (identity.pid, identity.rank, identity.world_size, identity.job_id) == (rank.pid, 1, 4, "job")
    assert f"True {identity.launcher_pid}\n" == rank.output
    assert (identity.restart_count, identity.max_restarts) == (0, 3)
    assert identity.labels == {"owner": "ann", "model": "dlrm"}


def test_labels_that_are_too_long_are_left_out_with_a_message(start_rank):
    rank = start_rank("from zmon.probe import attach_box\nprint(attach_box(labels={'note': 'x' * 3000}))")
    assert rank.wait() == 0
    complaint, attached = rank.output.splitlines()
    assert "at most 16 labels, with at most 128 bytes" in complaint
    assert attached == "True"


def test_phases_and_collectives_of_a_real_clock_sum_to_each_step(start_rank):
    rank = start_rank("""
        import time, zmon
        from zmon import probe
        probe.attach_box()
        for _ in range(5):
            with zmon.step():
                zmon.phase("data")
                time.sleep(0.002)
                zmon.work(samples=32)
                zmon.phase("forward")
                time.sleep(0.003)
    """)
    assert rank.wait() == 0
    reader = BoxReader(rank.box)
    records = read_records(reader)
    reader.close()
    assert len(records) == 5
    for record in records:
        assert sum(record.measures.phases.values()) == pytest.approx(record.duration, abs=1e-9)
        assert record.measures.phases["data"] >= 0.002
        assert record.measures.phases["forward"] >= 0.003
        assert record.measures.samples == 32


def test_checkpoint_that_failed_is_not_the_last_checkpoint(start_rank):
    rank = start_rank("""
        import zmon
        from zmon import probe
        probe.attach_box()
        try:
            with zmon.activity("checkpoint"):
                raise OSError("No space left on device")
        except OSError:
            print("trains on")
        with zmon.step():
            pass
    """)
    assert rank.wait() == 0
    reader = BoxReader(rank.box)
    assert read_totals(reader).last_checkpoint_time is None
    reader.close()


def test_exception_in_an_activity_restores_the_previous_activity(start_rank):
    rank = start_rank("""
        import json, os, zmon
        from zmon import probe
        from zmon.box.reader import BoxReader
        probe.attach_box()
        with zmon.step():
            pass
        try:
            with zmon.activity("eval"):
                raise ValueError
        except ValueError:
            pass
        print(json.dumps(probe.current.activity))
    """)
    assert rank.wait() == 0
    assert json.loads(rank.output) == 1


def test_forked_worker_does_not_change_the_box_of_its_rank(start_rank):
    rank = start_rank("""
        import os, sys, zmon
        from zmon import probe
        probe.attach_box()
        with zmon.step():
            pass
        worker = os.fork()
        if not worker:
            for _ in range(10):
                with zmon.step():
                    zmon.report(loss=9.0)
            os._exit(0)
        os.waitpid(worker, 0)
    """)
    assert rank.wait() == 0
    reader = BoxReader(rank.box)
    assert read_totals(reader).steps == 1
    assert reader.report() == {}
    reader.close()


@pytest.mark.parametrize("edge", ["c", "python"])
def test_declared_operations_need_a_dtype_and_are_in_the_box_with_it(start_rank, edge):
    rank = start_rank(
        """
        import zmon
        from zmon import probe
        assert probe.attach_box()
        for number in range(4):
            with zmon.step():
                zmon.work(samples=1, flops=10**9, memory_traffic=500, dtype="bfloat16")
                zmon.work(samples=1, flops=2e9, dtype="bfloat16")
        for _ in range(2):
            zmon.work(flops=10**9)
            zmon.work(flops=10**9, dtype={"float32": 1.5})
        identity = probe._identity
        print(identity.flops_source, identity.flops_dtypes)
        print(*probe.current.ledger._amounts[2:4])
        zmon.work(flops=10**9, dtype={"float32": 0.25, "bfloat16": 0.75})
        print(probe._identity.flops_dtypes)
        """,
        ZMON_EDGE=edge,
    )
    assert rank.wait() == 0
    lines = [line for line in rank.output.splitlines() if not line.startswith(PREFIX)]
    assert lines == [
        "declared {'bfloat16': 1.0}", f"{12 * 10**9} 2000", "{'float32': 0.25, 'bfloat16': 0.75}"
    ]  # fmt: skip
    first, second = zmon_lines(rank)
    assert "zmon.work(flops=…, dtype=None) cannot be used" in first
    assert "float32" in second


@pytest.mark.parametrize("edge", ["c", "python"])
def test_odd_dtype_costs_the_operations_and_not_the_box_nor_the_samples(start_rank, edge):
    rank = start_rank(
        """
        import zmon
        from zmon import probe
        assert probe.attach_box()
        class Dtype:
            def __str__(self):
                return "torch.bfloat16"
        for dtype in ("bfloat16 (autocast)", {"bfloat16": "half"}, {f"dtype_{n}": 0.01 for n in range(40)}, None, 7.5):
            with zmon.step():
                zmon.work(samples=5, flops=10**9, memory_traffic=3, dtype=dtype)
        print(probe._identity.flops_source, *probe.current.ledger._amounts[:1], *probe.current.ledger._amounts[2:4])
        written = []
        probe.current.box.identity = written.append
        for _ in range(20):
            zmon.work(flops=10**9, dtype={"bfloat16": 0.5, "float32": 0.5})
        zmon.work(flops=10**9, dtype=Dtype())
        print(*(identity.flops_dtypes for identity in written))
        """,
        ZMON_EDGE=edge,
    )
    assert rank.wait() == 0
    lines = [line for line in rank.output.splitlines() if not line.startswith(PREFIX)]
    assert lines == [" 25 -1 15", "{'bfloat16': 0.5, 'float32': 0.5} {'bfloat16': 1.0}"]
