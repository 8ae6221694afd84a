"""Tests of the sizes of a sweep and of the command for each size."""

import re

import pytest

from lab.sweep import Size, command_at, sizes, template
from lab.sweep.sizes import BUNDLED
from zmon.errors import UsageError

COMMAND = ("torchrun", "--nproc-per-node={ranks}", "train.py", "--batch={batch}")


@pytest.mark.parametrize(
    ("command", "ranks", "batch", "modes", "expected"),
    [
        (COMMAND, [2, 4], 100, ["weak"], [(2, 100), (4, 200)]),  # the batch per rank stays
        (COMMAND, [2, 4], 100, ["strong"], [(2, 100), (4, 100)]),  # the global batch stays
        (COMMAND, [4, 1, 2, 2], 512, ["weak", "strong"], [(1, 512), (2, 512), (2, 1024), (4, 512), (4, 2048)]),
        (("run", "{ranks}"), [1, 2], None, ["weak", "strong"], [(1, None), (2, None)]),
        (BUNDLED, [1, 2], 512, ["weak"], [(1, 512), (2, 1024)]),
    ],
)
def test_sizes_are_sorted_without_duplicates(command, ranks, batch, modes, expected):
    assert sizes(command, ranks, batch, modes) == [Size(*size) for size in expected]


def test_command_at_replaces_all_placeholders():
    assert command_at(COMMAND, Size(2, 64)) == ["torchrun", "--nproc-per-node=2", "train.py", "--batch=64"]
    assert command_at(("bash", "-c", "run {ranks} {ranks} ${HOME}"), Size(2, None))[2] == "run 2 2 ${HOME}"


def test_batch_per_rank_is_the_global_batch_divided_by_ranks():
    per_rank = ("train", "{ranks}", "--batch={batch_per_rank}")
    assert command_at(per_rank, Size(4, 512))[2] == "--batch=128"
    assert sizes(per_rank, [1, 2], 512, ["weak"]) == [Size(1, 512), Size(2, 1024)]


@pytest.mark.parametrize(("ranks", "modes"), [([1, 4], ["strong"]), ([3, 4], ["weak"])])
def test_batch_that_ranks_cannot_share_is_refused(ranks, modes):
    """Each of 4 ranks would process 2 samples, and the result would count 10."""
    with pytest.raises(UsageError, match=r"cannot be divided among [34] ranks"):
        sizes(("train", "{ranks}", "--batch={batch_per_rank}"), ranks, 10, modes)


OF_TORCHRUN = "--nproc-per-node={ranks}"


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("srun -n{ranks} x", "srun -n{ranks} x"),
        ("torchrun --nproc_per_node=8 x.py", "torchrun --nproc_per_node={ranks} x.py"),
        ("torchrun --nproc-per-node gpu x.py", "torchrun --nproc-per-node {ranks} x.py"),
        ("train.py --fast", f"{OF_TORCHRUN} train.py --fast"),
        ("python train.py --fast", f"{OF_TORCHRUN} train.py --fast"),
        ("/usr/bin/python3.11 train.py --fast", f"{OF_TORCHRUN} train.py --fast"),
        ("python3 -m trainer", f"{OF_TORCHRUN} -m trainer"),
    ],
)
def test_template_has_a_place_for_the_ranks(command, end):
    assert " ".join(template(tuple(command.split()))).endswith(end)


@pytest.mark.parametrize(
    "command", [("torchrun", "train.py"), ("bash", "-c", "train"), ("python",), ("python", "-c", "1")]
)
def test_command_without_a_place_for_ranks_is_refused(command):
    with pytest.raises(UsageError, match=re.escape("{ranks}")):
        template(command)


@pytest.mark.parametrize(
    ("command", "batch", "part"),
    [(COMMAND, None, "Set it with --batch"), (("run", "{ranks}"), 64, "no word of the command has {batch}")],
)
def test_batch_that_does_not_fit_the_command_is_refused(command, batch, part):
    with pytest.raises(UsageError) as refused:
        sizes(command, [1, 2], batch, ["weak"])
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def test_size_is_printed_as_text():
    assert str(Size(1, 512)) == "1 rank, 512 samples per step"
    assert str(Size(4, None)) == "4 ranks"
