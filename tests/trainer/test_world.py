"""Tests of `World`: valid and invalid variables of the launcher, and the rendezvous."""

import socket

import pytest

from tests.ports import free_port
from trainer.errors import WorldError
from trainer.world import World, join, world_from

RENDEZVOUS = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def test_world_without_launcher_has_a_single_rank() -> None:
    assert world_from({}) == World(rank=0, size=1)


def test_rank_and_size_come_from_variables_of_launcher() -> None:
    environ = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    assert world_from(environ | RENDEZVOUS) == World(rank=2, size=4, local_rank=0, local_size=2)
    assert world_from({"RANK": "2", "WORLD_SIZE": "4"} | RENDEZVOUS) == World(2, 4, local_rank=2, local_size=4)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WORLD_SIZE": "four"}, "WORLD_SIZE='four' is not a number"),
        ({"RANK": "", "WORLD_SIZE": "4"}, "RANK='' is not a number"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK=4 does not fit WORLD_SIZE=4"),
        ({"WORLD_SIZE": "0"}, "RANK=0 does not fit WORLD_SIZE=0"),
        ({"RANK": "0", "WORLD_SIZE": "4"}, "MASTER_ADDR is not set but WORLD_SIZE=4"),
        ({"WORLD_SIZE": "2"} | RENDEZVOUS | {"MASTER_PORT": "x"}, "MASTER_PORT='x' is not a number"),
    ],
)
def test_invalid_environment_is_refused(environment: dict[str, str], message: str) -> None:
    with pytest.raises(WorldError, match=message):
        world_from(environment)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return a free port, at which rank 0 of 2 is to meet the other rank."""
    port = free_port()
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", port), ("RANK", 0), ("WORLD_SIZE", 2)):
        monkeypatch.setenv(name, str(value))
    return port


@pytest.mark.e2e  # another process may take the port first
def test_missing_rank_is_an_error_after_timeout(port: int) -> None:
    with pytest.raises(WorldError, match=f"rank 0 of 2 could not connect to the other ranks at 127.0.0.1:{port}"):
        join(World(rank=0, size=2), timeout_seconds=1)


@pytest.mark.e2e
def test_port_in_use_is_an_error(port: int) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", port))
        other.listen()
        with pytest.raises(WorldError, match="address already in use"):
            join(World(rank=0, size=2), timeout_seconds=1)
