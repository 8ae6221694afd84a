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
    json.loads("{")


def wrapped():
    try:
        read_shard()
    except ValueError as error:
        raise RuntimeError("step failed") from error


def hidden():
    try:
        read_shard()
    except ValueError:
        raise RuntimeError("step failed") from None


def in_file(path, name, statement="raise RuntimeError('Connection reset by peer')"):
    """Return a function with this name that is defined in the file `path`."""
    names = {}
    exec(compile(f"def {name}():\n    {statement}\n", path, "exec"), names)
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


COLLECTIVE = [
    ("/env/site-packages/torch/distributed/distributed_c10d.py", "all_reduce"),
    ("/env/site-packages/torch/distributed/_functional_collectives.py", "wait_tensor"),
    ("<zmon, passed over like importlib._bootstrap>", "wait"),
    ("<zmon, passed over like importlib._bootstrap>", "collective"),
]


@pytest.mark.parametrize(("path", "name"), COLLECTIVE)
def test_error_that_passes_through_a_collective(path, name):
    assert origin_of(caught(in_file(path, name))).in_collective is True


def test_error_wrapped_by_the_job_passed_through_a_collective():
    collective = in_file(*COLLECTIVE[0])

    def step():
        try:
            collective()
        except RuntimeError as error:
            raise KeyError("training failed") from error

    assert origin_of(caught(step)).in_collective is True


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/job/train.py", "all_reduce"),
        ("/env/site-packages/s3/client.py", "wait"),
        ("/env/site-packages/torch/distributed/distributed_c10d.py", "init_process_group"),
        ("<zmon, passed over like importlib._bootstrap>", "loading"),
    ],
)
def test_error_outside_of_collectives(path, name):
    assert origin_of(caught(in_file(path, name))).in_collective is False
