"""Tests of `python -m trainer.plan`: published models within memory, presets of the trainer, errors in one line."""

import re
import subprocess
import sys
from functools import cache

import pytest
from click.testing import CliRunner

from trainer.errors import ConfigError
from trainer.scale.plan_command import dry_run
from trainer.scale.sharding.plan import load_plan


@cache  # a large model takes seconds to plan, and several tests read its plan
def published(preset: str, ranks: int = 128) -> str:
    """Return the output for a published model on hosts of eight ranks."""
    return output("--preset", preset, "--ranks", str(ranks), "--ranks-per-host", "8")


def output(*arguments: str) -> str:
    """Return the output of the command; its errors are raised."""
    result = CliRunner().invoke(dry_run, list(arguments), standalone_mode=False, catch_exceptions=False)
    return result.output


@pytest.mark.parametrize("preset", ["zionex-a", "zionex-i", "zionex-f"])
def test_predicted_rate_of_published_model_is_within_a_factor_of_two(preset: str) -> None:
    rates = re.search(r"([\d,]+) samples/s, .* published ([\d,]+)", published(preset)).groups()
    predicted_rate, published_rate = (float(digits.replace(",", "")) for digits in rates)
    assert published_rate / 2 < predicted_rate < published_rate * 2


def test_model_that_exceeds_memory_of_ranks_uses_that_of_hosts() -> None:
    host_bytes = float(re.search(r"of hosts ([\d.]+) TB", published("zionex-f"))[1]) * 1e12
    table_bytes = 12e12 * 2  # twelve trillion parameters of 2 bytes
    assert table_bytes - 128 * 32e9 < host_bytes < 128 * 187.5e9  # memory of a rank, and of its host per rank


def test_published_rate_is_compared_only_at_its_number_of_ranks() -> None:
    assert "× the published" not in published("zionex-i", 64)


def test_preset_of_the_trainer_is_planned_with_its_keys(tmp_path) -> None:
    path = tmp_path / "plan.yaml"
    text = output("--ranks", "4", "--ranks-per-host", "2", "--set", "sharding.kind=row_wise", "--save", str(path))
    assert text.startswith("demo on 4 ranks, 2 per host")
    assert re.search(r"row_wise +26 +104,000", text)
    assert {placement.kind for placement in load_plan(path, 26, 4, 2).tables} == {"row_wise"}


def test_plan_of_a_file_is_used_and_saved(tmp_path) -> None:
    edited, copy = tmp_path / "plan.yaml", tmp_path / "copy.yaml"
    output("--ranks", "2", "--set", "sharding.kind=row_wise", "--set", f"sharding.save={edited}")
    edited.write_text(edited.read_text().replace("row_wise, ranks: [0, 1]", "table_wise, ranks: [1]", 1))
    keys = "--set", f"sharding.plan={edited}", "--set", f"sharding.save={copy}"
    assert re.search(r"table_wise +1 +20,000", output("--ranks", "2", *keys))
    assert copy.read_text() == edited.read_text()
    with pytest.raises(ConfigError, match="is for 2 ranks: this job has 4"):
        output("--ranks", "4", *keys)
    with pytest.raises(ConfigError, match="do not fit into memory"):
        output("--ranks", "2", *keys, "--set", "sharding.memory_bytes=1000000")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--preset", "zionex-b", "--ranks", "2"), "there is no preset zionex-b: it is misspelt. Use demo, .*zionex-a"),
        (("--preset", "zionex-a", "--ranks", "8", "--set", "train.seed=1"), "zionex-a has no keys"),
        (("--ranks", "2", "--set", "sharding.flops=0"), "sharding.flops is 0.0: it must be above 0, in operations"),
        (("--ranks", "2", "--save", "/nowhere/plan.yaml"), "cannot write /nowhere/plan.yaml"),
    ],
)
def test_misuse_is_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        output(*arguments)


@pytest.mark.parametrize(("ranks", "is_on_disk"), [(128, False), (64, True)])
def test_rows_that_hosts_have_no_memory_for_are_on_a_disk(ranks: int, is_on_disk: bool) -> None:
    """Twelve trillion parameters of 2 bytes fit into the memory of 128 ranks and their hosts."""
    text = published("zionex-f", ranks)
    assert bool(re.search(r"; on disks [\d.]+ TB\n", text)) == is_on_disk
    assert bool(re.search(r"of host +on disk +within hosts", text)) == is_on_disk


def test_configured_memory_leaves_the_other_rows_on_a_disk() -> None:
    keys = ("--set", "embedding.memory=4000000", "--set", "embedding.tier.folder=rows")
    assert "on disk" in output("--ranks", "2", *keys, "--set", "embedding.rows=[1000000,200]")
    assert "on disk" not in output("--ranks", "2", *keys, "--set", "embedding.rows=[1000,200]")


def test_error_is_one_line_without_an_import_of_torch() -> None:
    code = (
        "import sys; from trainer.plan import main; sys.argv[1:] = ['--preset', 'zionex-f', '--ranks', '16'];"
        "import atexit; atexit.register(lambda: print('torch' in sys.modules)); main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    error = r"trainer: the tables do not fit into memory: a rank would need .* of a disk, with table .*\n"
    assert re.fullmatch(error, done.stderr)
    assert done.stdout == "False\n"
