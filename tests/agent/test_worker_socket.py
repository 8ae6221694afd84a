"""Tests of the socket that the agent may use for a box: its own, of the same owner, and no other."""

import os
import socket
from pathlib import Path

import pytest

from tests.hostile.users import BOB, needs_root
from zmon.agent.worker_socket import NoSocket, worker_socket


@pytest.fixture
def listen(short_folder):
    """Return a function that opens a socket on which this process listens."""
    servers = []

    def open_at(path):
        path.parent.mkdir(exist_ok=True)
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen()
        server.setblocking(False)
        servers.append(server)
        return server

    yield open_at
    for server in servers:
        server.close()


@pytest.fixture
def short_folder(tmp_path_factory):
    """Return a folder whose path is short enough for a socket."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture
def box(short_folder):
    """Return the path of a box."""
    return short_folder / "rank-0.box"


def refusal(worker):
    """Return the reason why the socket of a worker is not opened."""
    with pytest.raises(NoSocket) as error, worker.opened():
        raise AssertionError("it was opened")
    return str(error.value)


@pytest.mark.parametrize(
    "path_in_box",
    ["{folder}/rank-0.sock", "/boxes/job/0/rank-0.sock", "{folder}/zmon-0123456789abcdef.sock"],
    ids=["its own", "its own by the path in the container of the job", "its short path"],
)
def test_own_socket_is_used(box, listen, short_folder, path_in_box):
    path = Path(path_in_box.format(folder=short_folder))
    server = listen(short_folder / path.name)
    with worker_socket(box, os.geteuid(), str(path), short_folder).opened() as opened:
        socket.socket(socket.AF_UNIX).connect(str(opened))
    server.accept()


def test_named_foreign_socket_is_not_asked(box, listen, short_folder):
    """`/run/docker.sock` of root, for example, which a user may not open."""
    server = listen(short_folder / "docker.sock")
    reason = refusal(worker_socket(box, os.geteuid(), str(short_folder / "docker.sock")))
    assert reason == f"the box names {short_folder}/docker.sock, which is not its own socket: not asked"
    with pytest.raises(BlockingIOError):
        server.accept()


def test_link_beside_the_box_is_not_followed(box, listen, short_folder):
    listen(short_folder / "docker.sock")
    path = box.with_suffix(".sock")
    path.symlink_to(short_folder / "docker.sock")
    assert "is not a socket" in refusal(worker_socket(box, os.geteuid(), str(path)))


@needs_root
def test_socket_of_another_owner_than_the_box_is_not_asked(box, listen):
    path = box.with_suffix(".sock")
    listen(path)
    assert refusal(worker_socket(box, BOB, str(path))) == f"{path} belongs to uid 0, the box to uid {BOB}: not asked"


def test_box_without_a_named_socket_has_no_server(box, listen):
    listen(box.with_suffix(".sock"))
    assert "no worker server" in refusal(worker_socket(box, os.geteuid(), ""))
