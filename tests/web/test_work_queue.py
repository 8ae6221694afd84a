"""Tests of the queue of large answers. They are made in order, a few at a time, and too many are refused."""

import asyncio

import pytest

from zmon.web.responses import Refusal
from zmon.web.work_queue import WorkQueue


async def test_large_requests_take_turns_in_their_order():
    queue = WorkQueue()
    begun = []
    at_work = most = 0

    async def work(number):
        nonlocal at_work, most
        async with queue.turn():
            begun.append(number)
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.001)
            at_work -= 1

    await asyncio.gather(*(work(number) for number in range(20)))
    assert begun == list(range(20))
    assert most == 1


async def test_request_beyond_the_limit_is_refused_at_once():
    queue = WorkQueue(max_waiting=2)
    async with queue.turn():
        waiting = [asyncio.create_task(queue.turn().__aenter__()) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(Refusal, match="busy") as refused:
            await queue.turn().__aenter__()
        assert refused.value.status == 503
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_queue_is_usable_after_a_request_without_a_turn_in_time():
    queue = WorkQueue(wait_seconds=0.05)
    async with queue.turn():
        with pytest.raises(Refusal, match="turn"):
            await queue.turn().__aenter__()
    async with queue.turn():
        pass


async def test_turn_ends_with_an_error_of_its_request():
    queue = WorkQueue()
    with pytest.raises(ValueError, match="odd"):
        async with queue.turn():
            raise ValueError("odd")
    async with queue.turn():
        pass
