"""Tests of what `zmon doctor` shows to the servers that it asks."""

from aiohttp import web
from aiohttp.test_utils import TestServer

from zmon.doctor import examine
from zmon.schema.http_config import SERVERS, Authorization, ClientConfig, HttpConfig


async def test_each_server_is_shown_its_own_token(tmp_path):
    """A hub or a Prometheus in other hands must not get stacks from agents."""
    shown = {server: set() for server in SERVERS}

    def app_of(server):
        async def answer(request):
            shown[server].add(request.headers.get("Authorization"))
            return web.json_response({}, status=503)

        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        return app

    async with (
        TestServer(app_of("agents")) as agent,
        TestServer(app_of("hub")) as hub,
        TestServer(app_of("prometheus")) as prometheus,
    ):
        urls = [str(server.make_url("")).rstrip("/") for server in (agent, hub, prometheus)]
        http = {server: HttpConfig(authorization=Authorization(credentials=f"of-{server}")) for server in SERVERS}
        await examine(tmp_path, *urls, http=ClientConfig(**http))
    assert shown == {server: {f"Bearer of-{server}"} for server in SERVERS}
