"""Tests of the origin of an exception: its place in the job's code, its first cause, and if a collective raised it."""

import json

import pytest

from zmon.probe.last_words import origin_of


def caught(function):
    """Return the exception that the function raises."""
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("the function raises nothing")


def read_shard():
    raise ValueError("shard 17 is truncated")


def in_library():
    """Raise in a library that the job calls."""
    json.loads("{")


def wrapped():
    """Raise from a first cause."""
    try:
        read_shard()
    except ValueError as error:
        raise RuntimeError("step failed") from error


def hidden():
    """Raise with the first cause suppressed."""
    try:
        read_shard()
    except ValueError:
        raise RuntimeError("step failed") from None


def in_file(path, name):
    """Return a function with this name that is defined in the file `path`, and raises."""
    names = {}
    exec(compile(f"def {name}():\n    raise RuntimeError('Connection reset by peer')\n", path, "exec"), names)
    return names[name]


@pytest.mark.parametrize(
    ("function", "place", "root"),
    [
        (read_shard, f"read_shard() at test_origin.py:{read_shard.__code__.co_firstlineno + 1}", ""),
        (in_library, "in_library() at ", ""),
        (wrapped, "read_shard() at ", "builtins.ValueError: shard 17 is truncated"),
        (hidden, "hidden() at ", ""),
    ],
)
def test_place_is_the_innermost_frame_of_the_job_and_root_the_first_cause(function, place, root):
    origin = origin_of(caught(function))
    assert (origin.where[: len(place)], origin.root) == (place, root)


def test_chain_of_causes_may_be_a_circle():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert origin_of(first).in_collective is False


TORCH = "/env/site-packages/torch/distributed/distributed_c10d.py"
ZMON = "<zmon, passed over like importlib._bootstrap>"  # the file of its wrappers


@pytest.mark.parametrize(
    ("path", "name", "in_collective"),
    [
        (TORCH, "all_reduce", True),
        ("/env/site-packages/torch/distributed/_functional_collectives.py", "wait_tensor", True),
        (ZMON, "wait", True),
        (ZMON, "collective", True),
        ("/job/train.py", "all_reduce", False),
        ("/env/site-packages/s3/client.py", "wait", False),
        (TORCH, "init_process_group", False),
        (ZMON, "loading", False),
    ],
)
def test_error_passed_through_a_collective_if_a_function_of_torch_or_zmon_was_one(path, name, in_collective):
    assert origin_of(caught(in_file(path, name))).in_collective is in_collective


def test_error_wrapped_by_the_job_passed_through_a_collective():
    collective = in_file(TORCH, "all_reduce")

    def step():
        try:
            collective()
        except RuntimeError as error:
            raise KeyError("training failed") from error

    assert origin_of(caught(step)).in_collective is True
