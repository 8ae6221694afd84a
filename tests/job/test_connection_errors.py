"""Tests of the errors that make a rank a victim, and of those that are its own."""

from dataclasses import replace

import pytest

from tests.build import DISCONNECT, dead, words
from zmon.job.connection_errors import is_broken_connection, is_timeout, peer_address
from zmon.job.way import Way, way_of

STORE = "The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500)."


def error(message, type_="builtins.RuntimeError", **changes):
    return replace(words("exception", type_, message), **changes)


@pytest.mark.parametrize("message", ["read error: connection reset by peer", "connection refused", "read timeout"])
def test_network_error_outside_a_collective_is_the_ranks_own(message):
    assert not is_broken_connection(error(message, in_collective=False))
    assert is_broken_connection(error(message, in_collective=True))
    assert is_broken_connection(error(message))  # an older box does not say where


def test_error_of_gloo_is_a_broken_connection_wherever_it_was_raised():
    """The collectives of DDP run in C++, so no frame of the traceback is a collective."""
    assert is_broken_connection(error(DISCONNECT, in_collective=False))


def test_error_that_a_framework_raised_from_a_broken_connection_is_one():
    root = f"builtins.RuntimeError: {DISCONNECT}"
    assert is_broken_connection(error("step failed", "lightning.StepError", root=root, in_collective=False))
    assert not is_broken_connection(error("step failed", "lightning.StepError", root="builtins.KeyError: 'loss'"))


@pytest.mark.parametrize(
    "message",
    [
        "NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
    ],
)
def test_fault_of_the_ranks_own_gpu_is_no_broken_connection(message):
    assert not is_broken_connection(error(message, "torch.distributed.DistBackendError", in_collective=True))


def test_text_about_nccl_without_a_broken_connection_is_the_ranks_own():
    assert not is_broken_connection(error("NCCL_SOCKET_IFNAME must be set", in_collective=False))


def test_timeout_of_a_collective_is_told_from_a_reset():
    assert is_timeout(error("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation"))
    assert not is_timeout(error(DISCONNECT))
    assert not is_timeout(None)


def test_rank_that_does_not_reach_the_store_before_its_first_step_has_not_met_the_others():
    last_words = error(STORE, "torch.distributed.DistNetworkError")
    assert way_of(dead(0, activity="init", steps=0, last_words=last_words)) is Way.NOT_MET
    assert way_of(dead(0, last_words=last_words)) is Way.DISCONNECTED  # it has trained


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
