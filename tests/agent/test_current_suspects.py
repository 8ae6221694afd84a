"""Tests of long polls. All are answered on news, and the oldest at once if there are too many."""

import asyncio

import pytest

from zmon.agent.current_suspects import LongPolls


@pytest.mark.parametrize("pause", [0.01, 0], ids=["one after the other", "at once"])
async def test_news_answers_all_waiting_requests_and_the_oldest_beyond_the_limit_do_not_wait(pause):
    polls, waiting = LongPolls(max_waiting=2), []
    for _ in range(6):
        waiting.append(asyncio.create_task(polls.wait(30.0)))
        if pause:
            await asyncio.sleep(pause)
    await asyncio.sleep(0.01)
    assert [task.done() for task in waiting] == [True] * 4 + [False] * 2
    polls.answer_all()
    await asyncio.wait_for(asyncio.gather(*waiting), 1.0)
