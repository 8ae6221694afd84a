"""Random requests to an agent and a hub: every one is answered or refused, none with an error of the server."""

import asyncio
import re
from urllib.parse import quote

from aiohttp.test_utils import TestServer

from tests.agent.conftest import make_live_box
from tests.build import JOB
from tests.fuzz.draw import NUMBERS, damaged, draws, text
from tests.hub.fakes import FakeAgent, frozen, hub_over
from zmon.agent import Agent, AgentConfig
from zmon.schema.api import endpoints

__all__ = ["make_live_box"]
PATHS = [endpoint.path for endpoint in (*endpoints.AGENT, *endpoints.HUB)]
PATHS += ["/metrics", "/api/v1/incidents/{id}/report.html", "/", "//", "/%2e%2e/%2e%2e/etc/passwd"]
PARAMETERS = (
    "since", "wait", "about", "last", "plans", "job_id", "run", "stacks", "active", "evidence", "ranks", "batch"
)  # fmt: skip
ANSWER_SECONDS = 10.0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_SERVER_ERRORS = (500, 501, 502, 504)  # 503 is an answer: the boxes cannot be read


def parameter(chance):
    """Return a random parameter of a query, such as `wait=1`."""
    value = chance.choice((text(chance), str(chance.choice(NUMBERS)), "0", "1", JOB)).encode("utf-8", "replace")
    return f"{chance.choice(PARAMETERS)}={quote(value, safe=chance.choice(('', '', '/:%')))}"


def request(chance):
    """Return the bytes of a request, valid or not."""
    path = re.sub(
        r"\{\w+\}",
        lambda _: quote(chance.choice((JOB, "0", "2", text(chance))).encode("utf-8", "replace"), safe=""),
        chance.choice(PATHS),
    )
    query = "&".join(parameter(chance) for _ in range(chance.choice((0, 1, 2, 5))))
    query = re.sub(r"wait=[^&]*", "wait=0.001", query)  # a long poll would only wait
    method = chance.choice(("GET",) * 8 + ("HEAD", "POST", "PUT", "OPTIONS", "X"))
    head = f"{method} {path}{'?' if query else ''}{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    extra = chance.choice(("", "", "X: y\r\n", "Range: bytes=0-\r\n", f"X-Long: {'x' * 9000}\r\n"))
    raw = f"{head}{extra}\r\n".encode()
    return damaged(raw, chance) if chance.random() < 0.2 else raw


async def status_of(port, raw):
    """Return the status of the answer; None if the server closes the connection without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        if not raw.endswith(b"\r\n\r\n"):  # damaged: the server waits for the rest
            writer.write_eof()
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await reader.readline()  # a damaged header may keep the connection open
    except ConnectionError:
        return None
    finally:
        writer.close()
    match = _STATUS.match(answer)
    return int(match[1]) if match else None


def test_random_requests_to_agent_and_hub_get_no_error_of_the_server(make_live_box, tmp_path, seed_and_number):
    make_live_box().steps(3)
    seed, number = seed_and_number

    async def main():
        agent = Agent(AgentConfig(tmp_path, "node-a", scan_interval_seconds=0.05), ())
        async with (
            TestServer(agent.app()) as agent_server,
            FakeAgent(*frozen()).serve() as fake,
            hub_over(tmp_path / "data", fake) as hub,
        ):
            await hub.passes(2)
            ports = agent_server.port, hub.client.server.port
            num_answers = 0
            for name, chance in draws(seed, number):
                raw, port = request(chance), chance.choice(ports)
                try:
                    status = await status_of(port, raw)
                except TimeoutError:
                    raise AssertionError(f"{name}: no answer to {raw!r}") from None
                assert status not in _SERVER_ERRORS, f"{name}: {status} for {raw!r}"
                num_answers += status is not None
            assert num_answers > 0.7 * number  # the server may close the connection after a damaged request

    asyncio.run(main())  # the many take longer than a test that is an `async def` may
