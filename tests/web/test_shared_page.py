"""Tests of a page that clients share. It is made once for all who wait, and reused for as long as that took."""

import asyncio
import contextlib
import itertools
from types import SimpleNamespace

import pytest

from zmon.web import work_queue
from zmon.web.work_queue import SharedPage


def counted(seconds):
    """Return a page that takes this time to make, and has the number of times that it was made."""
    numbers = itertools.count(1)

    async def make():
        await asyncio.sleep(seconds)
        return str(next(numbers)).encode()

    return SharedPage(make)


async def test_clients_that_wait_at_the_same_time_share_one_page():
    page = counted(0.02)
    assert await asyncio.gather(*(page.get() for _ in range(50))) == [b"1"] * 50


async def test_page_is_reused_for_as_long_as_it_took_to_make(monkeypatch):
    now = 0.0
    monkeypatch.setattr(work_queue, "time", SimpleNamespace(monotonic=lambda: now))
    numbers = itertools.count(1)

    async def make():
        nonlocal now
        now += 2.0
        return str(next(numbers)).encode()

    page = SharedPage(make)
    assert await page.get() == b"1"
    now += 1.9
    assert await page.get() == b"1"
    now += 0.2
    assert await page.get() == b"2"


async def test_client_that_leaves_does_not_cost_others_their_page():
    page = counted(0.05)
    leaving, staying = asyncio.create_task(page.get()), asyncio.create_task(page.get())
    await asyncio.sleep(0.01)
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    assert await staying == b"1"


async def test_page_that_failed_is_made_again():
    failures = iter([ValueError("odd")])

    async def make():
        for failure in failures:
            raise failure
        return b"page"

    page = SharedPage(make)
    with pytest.raises(ValueError, match="odd"):
        await page.get()
    assert await page.get() == b"page"
