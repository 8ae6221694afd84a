"""Tests of a page that clients share. It is made once for all who wait, and never given when it is old."""

import asyncio
import contextlib

import pytest

from zmon.web.work_queue import SharedPage


def counted(seconds):
    numbers = iter(range(1, 1000))

    async def make():
        await asyncio.sleep(seconds)
        return str(next(numbers)).encode()

    return SharedPage(make)


def test_clients_that_wait_at_the_same_time_share_one_page():
    async def main():
        page = counted(0.02)
        assert await asyncio.gather(*(page.get() for _ in range(50))) == [b"1"] * 50

    asyncio.run(main())


def test_later_client_gets_a_new_page():
    async def main():
        page = counted(0.02)
        assert await page.get() == b"1"
        await asyncio.sleep(0.1)
        assert await page.get() == b"2"

    asyncio.run(main())


def test_client_that_leaves_does_not_cost_others_their_page():
    async def main():
        page = counted(0.05)
        leaving, staying = asyncio.create_task(page.get()), asyncio.create_task(page.get())
        await asyncio.sleep(0.01)
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        assert await staying == b"1"

    asyncio.run(main())


def test_page_that_failed_is_made_again():
    async def main():
        failures = iter([ValueError("odd")])

        async def make():
            for failure in failures:
                raise failure
            return b"page"

        page = SharedPage(make)
        with pytest.raises(ValueError, match="odd"):
            await page.get()
        assert await page.get() == b"page"

    asyncio.run(main())
