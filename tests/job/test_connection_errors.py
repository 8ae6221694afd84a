"""Tests of the errors that make a rank a victim, and of those that are its own."""

from dataclasses import replace

import pytest

from tests.build import DISCONNECT, dead, words
from zmon.job.connection_errors import could_not_meet, is_broken_connection, is_timeout, named_ranks, peer_address
from zmon.job.rank_end import Way, way_of

STORE = "The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500)."
DIST_STORE = "torch.distributed.DistStoreError"
BACKEND = "torch.distributed.DistBackendError"


def error(message, type_="builtins.RuntimeError", in_collective=None, root=""):
    """Return the last words of a rank that an exception ended."""
    return replace(words("exception", type_, message), in_collective=in_collective, root=root)


@pytest.mark.parametrize(
    ("last_words", "is_broken"),
    [
        (error("read error: connection reset by peer", in_collective=True), True),
        (error("read error: connection reset by peer", in_collective=False), False),  # of a storage client
        (error("read error: connection reset by peer"), True),  # an older box does not say where
        (error("connection refused", in_collective=True), True),
        (error("connection refused", in_collective=False), False),
        (error("read timeout", in_collective=True), True),
        (error("read timeout", in_collective=False), False),
        # the collectives of DDP run in C++, so no frame of the traceback is a collective
        (error(DISCONNECT, in_collective=False), True),
        # a framework raised its error from a broken connection, or from another error
        (error("failed", "lightning.StepError", False, f"builtins.RuntimeError: {DISCONNECT}"), True),
        (error("failed", "lightning.StepError", root="builtins.KeyError: 'loss'"), False),
        # errors of the libraries, whose texts differ
        (error("[gloo/transport/tcp/pair.cc:144] recv: Connection reset by peer"), True),
        (error("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation"), True),
        (error("Read error [127.0.0.1]:1234: Connection reset by peer"), True),
        (error("NCCL error: remote process exited or there was a network error, NCCL version 2.21.5"), True),
        (error("ncclSystemError: System call (e.g. socket, malloc) or external library call failed"), True),
        (error("NCCL communicator was aborted after a previous error"), True),
        (error("write error: Broken pipe"), True),
        (error("", "torch.distributed.DistNetworkError"), True),
        (error("", BACKEND), True),
        # a rank that waited at the store, or in a barrier that names the missing ranks
        (error("wait timeout after 2000ms, keys: /default_pg/0//ready", DIST_STORE, False), True),
        (error("Wait timeout", in_collective=False), True),  # a FileStore
        (error("[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 2000 ms", in_collective=False), True),
        (error("the wait timeout of the pool is 5 s", in_collective=False), False),  # of another library
        (error("a key is missing", DIST_STORE), False),
        # other errors
        (error("bad batch 17", in_collective=True), False),
        (error("CUDA error: an illegal memory access was encountered"), False),
        (error("mat1 and mat2 shapes cannot be multiplied (4x3 and 4x3)"), False),
        # a fault of the rank's GPU, or of its settings
        (error("NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error", BACKEND, True), False),
        (error("ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", BACKEND, True), False),
        (error("NCCL_SOCKET_IFNAME must be set", in_collective=False), False),
    ],
)
def test_error_is_a_broken_connection_if_a_collective_or_its_library_raised_it(last_words, is_broken):
    assert is_broken_connection(last_words) is is_broken


def test_timeout_of_a_collective_is_told_from_a_reset():
    assert is_timeout(error("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation"))
    assert is_timeout(error("NCCL operation timed out", in_collective=True))  # torch's nccl2
    assert not is_timeout(error(DISCONNECT))
    assert not is_timeout(None)


@pytest.mark.parametrize(
    ("last_words", "ranks"),
    [  # texts of torch 2.13
        (error("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms\n Original exception: \n[x.cc:78]"), {1}),
        (error("[Rank 0]: Ranks 1, 12 failed to pass monitoredBarrier in 2000 ms"), {1, 12}),
        (error("wait timeout after 2000ms, keys: /default_pg/0//1//cpu//0/13", DIST_STORE), {13}),
        (error("wait timeout after 2000ms, keys: /default_pg/0//ready/1", DIST_STORE), set()),
        (error("Rank 2 successfully reached monitoredBarrier, but received errors while waiting for rank 0."), set()),
        (None, set()),
    ],
)
def test_timeout_names_the_missing_ranks(last_words, ranks):
    assert named_ranks(last_words) == ranks


START = {"activity": "init", "steps": 0}
NOT_MET = error(STORE, "torch.distributed.DistNetworkError")


def test_rank_that_does_not_reach_the_store_before_its_first_step_has_not_met_the_others():
    assert way_of(dead(0, **START, last_words=NOT_MET)) is Way.NOT_MET
    assert way_of(dead(0, last_words=NOT_MET)) is Way.DISCONNECTED  # it has trained


@pytest.mark.parametrize(
    ("last_words", "state", "expected"),
    [
        pytest.param(error("", "torch.distributed.DistNetworkError"), START, True, id="type of the error"),
        pytest.param(error("failed", "lightning.StartError", root=f"{DIST_STORE}: gone"), START, True, id="root"),
        pytest.param(error(STORE), START, True, id="text of a library"),
        pytest.param(error("Gloo connectFullMesh failed with timeout"), START, True, id="text of gloo"),
        pytest.param(error("connection refused"), START, False, id="text of another library"),
        pytest.param(error("[c10d] bad argument"), START, False, id="another error of a library"),
        pytest.param(NOT_MET, {"activity": "init"}, False, id="after a step"),
        pytest.param(NOT_MET, {**START, "activity": "eval"}, False, id="in another activity"),
        pytest.param(None, START, False, id="without last words"),
    ],
)
def test_rank_could_not_meet_the_others_if_an_error_of_the_store_ended_its_start(last_words, state, expected):
    assert could_not_meet(dead(0, **state, last_words=last_words)) is expected


@pytest.mark.parametrize(
    ("message", "address"),
    [
        (STORE, "10.0.0.1:29500"),
        ("The client socket has failed to connect to node-0:29500 (errno: 111 - Connection refused).", "node-0:29500"),
        (DISCONNECT, "127.0.0.1:9401"),
        ("broken pipe", None),
    ],
)
def test_address_is_read_from_the_error(message, address):
    assert peer_address(message) == address
