"""Tests of long polls. All are answered on news, and the oldest at once if there are too many."""

import asyncio

from zmon.agent.current_suspects import LongPolls


def test_news_answers_all_waiting_requests():
    async def main():
        polls = LongPolls()
        waiting = [asyncio.create_task(polls.wait(30.0)) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in waiting)
        polls.answer_all()
        await asyncio.wait_for(asyncio.gather(*waiting), 1.0)

    asyncio.run(main())


def test_request_is_answered_at_its_timeout():
    async def main():
        await asyncio.wait_for(LongPolls().wait(0.05), 1.0)

    asyncio.run(main())


def test_oldest_request_is_answered_at_once_beyond_the_limit():
    async def main():
        polls = LongPolls(most=2)
        waiting = []
        for _ in range(4):
            waiting.append(asyncio.create_task(polls.wait(30.0)))
            await asyncio.sleep(0.01)
        assert [task.done() for task in waiting] == [True, True, False, False]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())


def test_limit_holds_for_requests_that_arrive_at_once():
    async def main():
        polls = LongPolls(most=2)
        waiting = [asyncio.create_task(polls.wait(30.0)) for _ in range(6)]
        await asyncio.sleep(0.01)
        assert [task.done() for task in waiting] == [True] * 4 + [False] * 2
        polls.answer_all()
        await asyncio.gather(*waiting)

    asyncio.run(main())
