"""Tests of `zmon steps`. The file is complete or absent, stdout has only data, and stderr reports missing steps."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.boxes import eventually
from tests.places import REPOSITORY
from tests.steplog.build import append_once, rank_box, segments
from zmon.box import layout
from zmon.cli.main import main
from zmon.cli.steps import WRITERS


@pytest.fixture
def root(tmp_path):
    """A log of two ranks of the job `job`, five steps each."""
    root = tmp_path / "data/steps"
    for rank in range(2):
        box = rank_box(tmp_path / "boxes", rank)
        box.steps(5)
        append_once(root, box)
    return root


@pytest.fixture
def run_steps(root, monkeypatch, capfd, tmp_path):
    """Return a function that runs `zmon steps` in this process, and returns exit code, stdout and lines of stderr."""
    monkeypatch.setenv("ZMON_DATA_DIR", str(tmp_path / "data"))

    def run_steps(*arguments):
        monkeypatch.setattr("sys.argv", ["zmon", "steps", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as leave:
            code = leave.code or 0
        out, err = capfd.readouterr()
        return code, out, err.splitlines()

    return run_steps


def rows(text):
    """Return the rows of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def test_steps_are_written_as_json_lines(run_steps, tmp_path):
    out = tmp_path / "x.jsonl"
    code, stdout, lines = run_steps("job", "--out", out)
    assert (code, stdout, lines) == (0, "", [f"zmon: 10 steps of 2 ranks in {out}"])
    assert [(row["rank"], row["step"]) for row in rows(out.read_text())] == [
        (rank, step) for rank in (0, 1) for step in range(1, 6)
    ]


def test_steps_are_written_as_parquet(run_steps, tmp_path):
    out = tmp_path / "x.parquet"
    code, _, _ = run_steps("job", "--out", out)
    assert code == 0
    table = parquet.read_table(out)
    assert table.num_rows == 10
    assert table.column("step").to_pylist() == [1, 2, 3, 4, 5] * 2


def test_rank_and_attempt_options_select_steps(run_steps, root, tmp_path):
    box = rank_box(tmp_path / "boxes", rank=1, run=1, attempt=1)
    box.steps(2)
    append_once(root, box)

    def exported_steps(*arguments):
        _, out, _ = run_steps("job", "--out", "-", *arguments)
        return [(row["attempt"], row["rank"]) for row in rows(out)]

    assert exported_steps("--attempt", 1) == [(1, 1)] * 2
    assert exported_steps("--rank", 1) == [(0, 1)] * 5 + [(1, 1)] * 2
    assert exported_steps("--rank", 1, "--attempt", 0) == [(0, 1)] * 5


def test_missing_and_earlier_steps_are_reported_by_rank(run_steps, root, tmp_path):
    late, gap = rank_box(tmp_path / "boxes", rank=2), rank_box(tmp_path / "boxes", rank=3)
    gap.steps(5)
    append_once(root, gap)
    num_steps = layout.RING_CAPACITY + 3000  # more than a box keeps
    for box in (late, gap):
        box.steps(num_steps)
        append_once(root, box)
    code, out, lines = run_steps("job", "--out", "-")
    exported = Counter(row["rank"] for row in rows(out))
    missing = 5 + num_steps - exported[3]
    earlier = num_steps - exported[2]
    assert code == 0
    assert lines[1:] == [
        f"zmon: {missing:,} steps of rank 3 are missing: the agent did not read them in time, or they are damaged",
        f"zmon: {earlier:,} steps of rank 2 were before the log begins",
    ]


def test_damaged_file_is_reported_and_the_rest_is_exported(run_steps, root):
    path = segments(root)[0]
    content = bytearray(path.read_bytes())
    content[-10] ^= 0xFF
    path.write_bytes(content)
    code, out, lines = run_steps("job", "--out", "-")
    assert code == 0
    assert {row["rank"] for row in rows(out)} == {1}
    assert [line for line in lines if str(path) in line and "damaged" in line]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["other", "--out", "x.jsonl"], ["no steps of job other", "it has the jobs job"]),
        (["../steps/job", "--out", "x.jsonl"], ["no steps of job", "it has the jobs job"]),
        (["job", "--out", "x.csv"], ["x.csv", ".parquet or .jsonl"]),
        (["job", "--out", "x"], ["The name must end in"]),
        (["job", "--out", "x.jsonl", "--rank", "9"], ["attempt 0, rank 0, 1"]),
        (["job", "--out", "x.jsonl", "--attempt", "9"], ["attempt 0, rank 0, 1"]),
        (["job"], ["--out"]),
        (["job", "--out", "x.jsonl", "--data-dir", "nothing"], ["it has no jobs"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_misuse_prints_one_line_and_exits_with_2(run_steps, tmp_path, monkeypatch, arguments, parts):
    monkeypatch.chdir(tmp_path)
    code, out, lines = run_steps(*arguments)
    assert (code, out, len(lines)) == (2, "", 1)
    assert all(part in lines[0] for part in parts)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(("x", ".x"))]


def test_log_of_another_user_is_one_line(run_steps, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    code, _, lines = run_steps("job", "--out", "x.jsonl")
    assert (code, len(lines)) == (2, 1)
    assert "data/steps'. Run zmon as the user who owns it" in lines[0]


def test_missing_pyarrow_is_reported_with_package_to_install(run_steps, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, lines = run_steps("job", "--out", tmp_path / "x.parquet")
    assert (code, len(lines)) == (2, 1)
    assert "zmon-training[parquet]" in lines[0]
    assert not [path for path in tmp_path.iterdir() if "x.parquet" in path.name]


@pytest.mark.parametrize("folder", ["no", "data/steps/job/file"])
def test_missing_directory_prints_one_line_and_exits_with_1(run_steps, tmp_path, folder):
    (tmp_path / "data/steps/job/file").touch()
    code, _, lines = run_steps("job", "--out", tmp_path / folder / "x.jsonl")
    assert (code, len(lines)) == (1, 1)
    assert "cannot write" in lines[0]


def test_full_disk_on_stdout_prints_one_line_and_exits_with_1(root, tmp_path):
    with Path("/dev/full").open("w") as full:
        process = spawn(tmp_path, "-", stdout=full)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert err == "zmon: cannot write -: No space left on device\n"


def test_existing_file_stays_until_new_file_is_complete(run_steps, root, tmp_path, monkeypatch):
    out = tmp_path / "x.jsonl"
    out.write_text("old")

    def write_half(table, file):
        file.write(b"half")
        assert out.read_text() == "old"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(WRITERS, ".jsonl", write_half)
    code, _, lines = run_steps("job", "--out", out)
    assert (code, len(lines)) == (1, 1)
    assert "No space left" in lines[0]
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if "x.jsonl" in path.name] == ["x.jsonl"]


@pytest.fixture
def long_log(root, tmp_path):
    """Add enough steps that an export can be interrupted."""
    for rank in range(2, 10):
        box = rank_box(tmp_path / "boxes", rank)
        box.steps(4000)
        append_once(root, box)


def spawn(tmp_path, out, **pipes):
    """Start `zmon steps job` as a process that writes to `out`, and return it."""
    env = {**os.environ, "ZMON_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-m", "zmon", "steps", "job", "--out", str(out)]
    return subprocess.Popen(command, cwd=REPOSITORY, env=env, stderr=subprocess.PIPE, text=True, **pipes)


def test_interrupt_leaves_no_partial_file(long_log, tmp_path):
    out = tmp_path / "x.jsonl"
    process = spawn(tmp_path, out)
    assert eventually(lambda: (partial := tmp_path / ".x.jsonl.partial").exists() and partial.stat().st_size, 20)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not [path for path in tmp_path.iterdir() if "x.jsonl" in path.name]


def test_closed_stdout_prints_no_error(long_log, tmp_path):
    process = spawn(tmp_path, "-", stdout=subprocess.PIPE)
    assert process.stdout.readline().startswith('{"job_id":"job"')
    process.stdout.close()
    err = process.stderr.read()
    process.wait(timeout=20)
    assert process.returncode > 0
    assert err == ""
