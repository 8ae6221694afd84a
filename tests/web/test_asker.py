"""Tests of the user who asks, read from the kernel's table of sockets."""

import os
import socket
import threading

import pytest
from aiohttp import web

from tests.hostile.users import BOB, needs_root, run_as
from zmon.web.asker import asker_of, find_asker
from zmon.web.http_client import session

CLIENT = ("127.0.0.1", 8080)
SERVER = ("127.0.0.1", 9780)
CLIENT_HEX, SERVER_HEX = "0100007F:1F90", "0100007F:2634"  # the same in the kernel's table: bytes reversed, hexadecimal
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def line(near, far, uid, inode):
    """Return the line of a socket in the kernel's table, with its own address and the address of its peer."""
    return f"   0: {near} {far} 01 00000000:00000000 00:00000000 00000000 {uid} 0 {inode} 1 0000000000000000 20 4\n"


@pytest.fixture
def kernel(tmp_path):
    """Return a function that writes the tables of sockets."""
    (tmp_path / "net").mkdir()
    (tmp_path / "self").mkdir()

    def write(tcp="", tcp6="", uid_map="0 0 4294967295"):
        """Return the arguments of `find_asker` for a host that is no container."""
        (tmp_path / "net/tcp").write_text(HEADER + tcp)
        (tmp_path / "net/tcp6").write_text(HEADER + tcp6)
        (tmp_path / "self/uid_map").write_text(uid_map)
        return {"proc": tmp_path, "root": tmp_path, "environ": {}}

    return write


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_connection_of_this_process_is_of_this_user(family, host):
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server, socket.create_connection(server.getsockname()[:2]), server.accept()[0] as end:
        assert find_asker(end.getpeername(), end.getsockname()).uid == os.geteuid()


@needs_root
def test_connection_of_another_user_is_of_that_user():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        wait = f"s = socket.create_connection(('127.0.0.1', {port})); s.recv(1); result = 'done'"
        thread = threading.Thread(target=run_as, args=(BOB, wait))
        thread.start()
        end, _ = server.accept()
        assert find_asker(end.getpeername(), end.getsockname()).uid == BOB
        end.close()
        thread.join()


def test_address_of_another_machine_is_of_nobody(kernel):
    tables = kernel(tcp=line("0300000A:1F90", "0100000A:2634", 0, 7))
    asker = find_asker(("10.0.0.3", 8080), ("10.0.0.1", 9780), **tables)
    assert (asker.uid, asker.reason) == (None, "10.0.0.3 is not a loopback address")


def test_ipv4_client_of_a_server_of_both_families_is_known(kernel):
    tables = kernel(tcp=line(CLIENT_HEX, SERVER_HEX, 1234, 7))
    assert find_asker(("::ffff:127.0.0.1", 8080, 0, 0), ("::ffff:127.0.0.1", 9780, 0, 0), **tables).uid == 1234


def test_wrapped_ipv4_socket_of_an_ipv6_client_is_known(kernel):
    wrapped = "0000000000000000FFFF00000100007F"
    tables = kernel(tcp6=line(f"{wrapped}:1F90", f"{wrapped}:2634", 1234, 7))
    assert find_asker(CLIENT, SERVER, **tables).uid == 1234


def test_socket_that_no_process_has_open_is_of_nobody(kernel):
    """The kernel lists it as root's: a client that closes at once would else be root."""
    asker = find_asker(CLIENT, SERVER, **kernel(tcp=line(CLIENT_HEX, SERVER_HEX, 0, 0)))
    assert (asker.uid, asker.reason) == (None, "no process of this machine has port 8080")


def test_same_port_with_another_end_is_of_nobody(kernel):
    tables = kernel(tcp=line("0200007F:1F90", "0100007F:2634", 0, 7) + line("0100007F:1F90", "0100007F:2635", 0, 8))
    assert find_asker(CLIENT, SERVER, **tables).uid is None


def test_user_without_a_number_in_this_namespace_is_of_nobody(kernel):
    table = line(CLIENT_HEX, SERVER_HEX, 65534, 7)
    assert find_asker(CLIENT, SERVER, **kernel(tcp=table)).uid == 65534
    assert find_asker(CLIENT, SERVER, **kernel(tcp=table, uid_map="0 100000 65536")).uid is None


def add_process(proc, pid, namespaces, *sockets):
    """Add a process in these namespaces of network and mounts, with sockets of these inodes."""
    for name, number in zip(("net", "mnt"), namespaces, strict=True):
        (proc / str(pid) / "ns").mkdir(parents=True, exist_ok=True)
        (proc / str(pid) / "ns" / name).symlink_to(f"{name}:[{number}]")
    (proc / str(pid) / "fd").mkdir()
    for number, inode in enumerate(sockets):
        (proc / str(pid) / "fd" / str(number)).symlink_to(f"socket:[{inode}]")


CONTAINERS = {
    "Kubernetes": {"environ": {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}},
    "Docker": {"mark": ".dockerenv"},
    "Podman": {"mark": "run/.containerenv"},
}


@pytest.fixture(params=CONTAINERS)
def container(request, kernel):
    """Return the arguments of `find_asker` in a container to which root has a connection, of inode 7."""
    tables = kernel(tcp=line(CLIENT_HEX, SERVER_HEX, 0, 7))
    kind = CONTAINERS[request.param]
    if "mark" in kind:
        (tables["root"] / kind["mark"]).parent.mkdir(exist_ok=True)
        (tables["root"] / kind["mark"]).touch()
    add_process(tables["proc"], "self", (1, 2))
    return {**tables, "environ": kind.get("environ", {})}


def test_process_of_the_container_is_known(container):
    add_process(container["proc"], 50, (1, 2), 5, 7)
    assert find_asker(CLIENT, SERVER, **container).uid == 0


@pytest.mark.parametrize(
    "processes",
    [
        pytest.param((), id="not seen"),
        pytest.param([((1, 2), 5)], id="another socket"),
        pytest.param([((1, 99), 7)], id="files of the host, as the runtime has them"),
        pytest.param([((99, 2), 7)], id="another network"),
    ],
)
def test_port_forward_is_of_nobody(container, processes):
    """`kubectl port-forward` and ports of rootless containers connect from loopback, as root or as this user."""
    for pid, (namespaces, inode) in enumerate(processes, 50):
        add_process(container["proc"], pid, namespaces, inode)
    asker = find_asker(CLIENT, SERVER, **container)
    assert asker.uid is None
    assert "was forwarded into this container" in asker.reason


@pytest.mark.parametrize(("uid", "known"), [(0, None), (1000, 1000)])
def test_root_on_a_node_of_kubernetes_is_of_nobody(kernel, uid, known):
    """A pod with the network of the host may be forwarded to, and so may every daemon of that host."""
    tables = kernel(tcp=line(CLIENT_HEX, SERVER_HEX, uid, 7))
    (tables["root"] / "var/lib/kubelet").mkdir(parents=True)
    assert find_asker(CLIENT, SERVER, **tables).uid == known


async def test_asker_over_a_unix_socket_is_the_user_at_its_other_end(tmp_path):
    async def answer(request):
        return web.json_response((await asker_of(request)).uid)

    app = web.Application()
    app.add_routes([web.get("/", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "socket")).start()
    async with session(socket=tmp_path / "socket") as client, client.get("http://agent/") as response:
        assert await response.json() == os.geteuid()
    await runner.cleanup()
