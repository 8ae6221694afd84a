"""Tests of connections of a server. Whoever sends no complete request does not keep others from an answer."""

import asyncio

from tests.web.serving import HALF, WHOLE, is_closed, request, running_server
from zmon.web import connections


async def test_half_sent_request_is_closed_at_its_deadline(monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.3)
    async with running_server() as server:
        reader, writer = await server.send(HALF)
        for _ in range(4):  # further bytes do not extend the deadline
            await asyncio.sleep(0.1)
            writer.write(b"x")
        assert await is_closed(reader, 2.0)


async def test_second_half_sent_request_of_a_connection_is_closed_as_well(monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.3)
    async with running_server() as server:
        reader, writer = await server.send(WHOLE)
        await reader.readuntil(b"up 1\n")
        writer.write(HALF)
        assert await is_closed(reader, 2.0)


async def test_oldest_half_sent_requests_make_room_for_new_connections():
    async with running_server(max_connections=8) as server:
        readers = [(await server.send(HALF))[0] for _ in range(40)]
        assert await server.status() == 200
        assert await asyncio.gather(*(is_closed(reader, 2.0) for reader in readers[:-8])) == [True] * 32
        assert not await is_closed(readers[-1], 0.3)


async def test_idle_connection_that_was_answered_outlives_half_sent_requests():
    async with running_server(max_connections=8) as server:
        reader, writer = await server.send(WHOLE)
        await reader.readuntil(b"up 1\n")
        for _ in range(20):
            await server.send(HALF)
        writer.write(WHOLE)
        assert (await reader.readline()).split()[1] == b"200"


async def test_request_that_is_being_answered_is_never_closed_to_make_room():
    async with running_server(max_connections=8) as server:
        reader, _ = await server.send(request("slow"))
        await server.being_answered.acquire()
        for _ in range(20):
            await server.send(HALF)
        server.released.set()
        assert (await reader.readline()).split()[1] == b"200"


async def test_new_connection_is_closed_if_all_others_are_being_answered():
    async with running_server(max_connections=8) as server:
        for _ in range(8):
            await server.send(request("slow"))
            await server.being_answered.acquire()
        reader, _ = await server.send(HALF)
        assert await is_closed(reader, 2.0)


async def test_request_with_a_body_that_never_ends_is_closed_after_its_answer(monkeypatch):
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)
    async with running_server() as server:
        reader, _ = await server.send(
            b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 104857600\r\n\r\n" + bytes(4 << 20)
        )
        assert (await reader.readline()).split()[1] == b"200"
        await reader.readuntil(b"up 1\n")
        assert await is_closed(reader, 2.0)


async def test_client_that_does_not_take_its_answer_is_closed(monkeypatch):
    monkeypatch.setattr(connections, "SEND_SECONDS", 0.3)
    async with running_server() as server:
        reader, _ = await server.send(request("large"))
        await asyncio.sleep(1.0)  # longer than SEND_SECONDS, in which nothing is read
        received = 0
        try:
            while data := await reader.read(1 << 20):
                received += len(data)
        except ConnectionError:
            pass
        assert received < 64 << 20
