"""Tests of the command line of the trainer. Misuse prints one line and exits with 2. A run ends with a summary."""

import os
import sys

import pytest

from tests.trainer.build import criteo_row
from tests.trainer.conftest import TRAINER
from trainer import __main__ as command


@pytest.fixture
def error_line_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs the command in this process until its error, and returns the error line."""

    def run(*arguments: str, environ: dict[str, str]) -> str:
        monkeypatch.setattr(sys, "argv", ["trainer", *arguments])
        for name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as end:
            command.main()
        assert end.value.code == 2
        error = capsys.readouterr().err
        assert error.startswith("trainer: ")
        assert error.count("\n") == 1
        return error

    return run


@pytest.mark.parametrize(
    ("arguments", "environ", "part"),
    [
        (["--foo"], {}, "No such option"),
        (["--preset", "huge"], {}, "--preset"),
        (["--steps", "x"], {}, "--steps"),
        (["--steps", "-1"], {}, "train.steps"),
        (["--data", "nowhere.tsv"], {}, "the file does not exist"),
        (["--data", "."], {}, "manifest"),
        (["--set", "sharding.kind=diagonal"], {}, "sharding.kind"),
        (["--set", "sharding.plan=plan.yaml"], {}, "cannot read the plan"),
        ([], {"WORLD_SIZE": "x"}, "WORLD_SIZE='x'"),
    ],
)
def test_misuse_prints_one_line_and_exits_with_2(
    error_line_of, tmp_path, monkeypatch, arguments: list[str], environ: dict[str, str], part: str
) -> None:
    monkeypatch.chdir(tmp_path)  # an empty folder
    assert part in error_line_of(*arguments, environ=environ)


def test_other_ranks_wait_before_exit_for_error_line_of_rank_0(error_line_of, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(command.time, "sleep", slept.append)
    error_line_of("--foo", environ={"RANK": "1", "WORLD_SIZE": "2"})
    assert slept == [command.RANK_0_SECONDS]


@pytest.mark.e2e
def test_four_ranks_train_on_small_file_with_malformed_row(start, write_rows) -> None:
    file = write_rows(*[criteo_row(label) for label in "10010010010010010010"], ["junk"])
    ended = start(4, TRAINER, "--data", str(file), "--steps", "5")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("finished 5 steps") == 1  # only rank 0 prints it
    lines = [line for line in ended.stderr.splitlines() if line.startswith("trainer: ")]
    assert lines == [
        f"trainer: {file}:21: column 2: the row has 1 columns instead of 40: row skipped",
        f"trainer: {file}: 1 malformed of 21 rows skipped",
        f"trainer: {file} has 20 valid rows, fewer than the global batch of 512: rows repeat",
        f"trainer: {file}: 1 malformed of 21 rows skipped",
    ]


@pytest.mark.slow  # errors without a launcher are in every run
@pytest.mark.e2e
def test_data_error_under_torchrun_prints_one_line(launch, write_rows) -> None:
    file = write_rows(["junk"])
    ended = launch(2, "-m", "trainer", "--data", str(file), "--strict")
    assert ended.returncode != 0
    lines = [line for line in ended.stderr.splitlines() if line.startswith("trainer: ")]
    assert len(lines) == 1
    assert f"{file}:1: column 2" in lines[0]
    assert "exitcode  : 2" in ended.stderr


@pytest.mark.slow  # four ranks train in every run
@pytest.mark.e2e
def test_single_rank_trains_without_launcher(launch) -> None:
    assert "RANK" not in os.environ
    ended = launch(0, "-m", "trainer", "--preset", "demo", "--steps", "3")
    assert ended.returncode == 0, ended.stderr
    assert "\nfinished 3 steps" in ended.stdout
