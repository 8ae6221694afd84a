"""Tests of `zmon mcp` as an assistant uses it: a client session over stdio, a process, and a hub over HTTP."""

import os
import sys
from contextlib import asynccontextmanager

from aiohttp.test_utils import unused_port

from tests.build import JOB
from tests.cli.mcp.hostile import HOSTILE, assert_harmless, data_of
from tests.cli.one_line import assert_one_line
from tests.golden.hub_scene import hub as full_hub
from tests.hub.serving import serving
from zmon.cli.mcp.fence import MAX_CHARACTERS
from zmon.schema.api import Problem

SECRET = "s3cret-token"
TOOLS = ["ends", "findings", "incident", "incidents", "ranks", "runbook", "status"]


@asynccontextmanager
async def session(tmp_path, *arguments):
    """Yield a session with `zmon mcp`, whose standard error goes to the file `err`."""
    from mcp.client import Client  # its import takes seconds, and every test process collects these tests
    from mcp.client.stdio import StdioServerParameters, stdio_client

    env = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    arguments = ["-m", "zmon", "mcp", "--data-dir", str(tmp_path), *arguments]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=env)
    with (tmp_path / "err").open("w") as err:
        async with Client(stdio_client(server, errlog=err)) as client:
            yield client


async def answer(client, tool, is_error=False, **arguments):
    """Return the only text of an answer."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error is is_error, result
    assert result.structured_content is None
    (content,) = result.content
    assert len(content.text) <= MAX_CHARACTERS
    return content.text


async def test_assistant_reads_jobs_findings_incidents_ranks_and_runbooks_of_the_stack(tmp_path):
    requests = []
    with serving(full_hub(tmp_path), requests) as url:
        async with session(tmp_path) as client:
            # The stack of this machine writes the URL of its hub there, and may start after the assistant.
            (tmp_path / "stack.json").write_text(f'{{"hub": "{url}"}}')
            tools = (await client.list_tools()).tools
            assert sorted(tool.name for tool in tools) == TOOLS
            assert all(tool.annotations.read_only_hint for tool in tools)
            assert all(len(tool.description) < 400 and "  " not in tool.description for tool in tools)
            assert 'job_id: "stuck", state: "stalled"' in await answer(client, "status")
            assert "findings[0].confidence: 0.97" in await answer(client, "findings", job_id="stuck")
            assert 'id: "abc1"' in await answer(client, "incidents")
            assert "guilty_line" in await answer(client, "incident", incident_id="abc1", part="evidence")
            assert len(data_of(await answer(client, "ranks", job_id=JOB))) == 4
            assert "kill -CONT PID" in await answer(client, "runbook", cause="rank_frozen")
    assert {method for method, _ in requests} == {"GET"}
    assert (tmp_path / "err").read_text() == ""


async def test_errors_are_one_fenced_line(tmp_path, fake_server):
    hostile = HOSTILE["end of the fence"] + HOSTILE["terminal"] + HOSTILE["direction"]
    server = fake_server(lambda *_: (500, Problem(f"failed: {hostile}")))
    async with session(tmp_path, "--hub", server.url) as client:
        for tool, arguments in (("status", {}), ("ranks", {"job_id": hostile}), ("runbook", {"cause": hostile})):
            text = await answer(client, tool, is_error=True, **arguments)
            assert "zmon cannot answer:" in text
            assert_harmless(text)
        assert "findings" in await answer(client, "findings", is_error=True, offset="many")


async def test_token_is_in_no_answer_and_in_no_log(tmp_path, fake_server):
    config = tmp_path / "http.yaml"
    config.write_text(f"hub: {{authorization: {{credentials: {SECRET}}}}}\n")
    server = fake_server(lambda *_: (401, Problem("who asks?")))
    dead = f"http://ann:{SECRET}@127.0.0.1:{unused_port()}"
    for arguments in ((server.url, "--http-config", str(config)), (dead,)):
        async with session(tmp_path, "--hub", *arguments) as client:
            texts = [await answer(client, tool, is_error=True) for tool in ("status", "findings", "incidents")]
        assert SECRET not in "".join((*texts, (tmp_path / "err").read_text()))


def test_missing_package_is_reported_with_install_command(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    code, out, err = command("mcp")
    assert (code, out) == (1, "")
    assert_one_line(err, "zmon mcp cannot run: mcp is not installed", "pip install 'zmon-training[mcp]'")
