"""Tests of a part of the stack: it is started, watched, restarted, and ended with all its children.

Each scenario runs in its own process, because `end_all` ends all children of the process.
"""

import contextlib
import os
import signal
import textwrap

import psutil
import pytest

from tests.boxes import eventually
from zmon.errors import PartFailed
from zmon.stack import find_program

pytestmark = pytest.mark.e2e
HEAD = """
import asyncio, os, signal, sys, time
from pathlib import Path
import aiohttp, psutil
from zmon.errors import PartFailed
from zmon.stack import part as module
from zmon.stack.part import Part, become_subreaper, end_all
folder = Path(__file__).parent
def say(line):
    print("message:", line, flush=True)
def program(code, name="part", **more):
    return Part(name, [sys.executable, "-S", "-E", "-c", code], "", None, folder / f"{name}.log", **more)
"""


@pytest.fixture
def run_scenario(start_rank):
    """Return a function that runs the statements of a coroutine to their end, and returns the process that ran them."""

    def run(statements, head=HEAD):
        main = "async def main():\n" + textwrap.indent(textwrap.dedent(statements), "    ")
        process = start_rank(f"{head}\n{main}\nasyncio.run(main())\n")
        assert process.wait() == 0
        return process

    return run


def test_part_that_keeps_dying_restarts_up_to_the_limit(run_scenario):
    scenario = run_scenario("""
        module.MAX_RESTARTS = 1
        part = program("print('hello'); raise SystemExit(3)")
        await part.start()
        await part.keep_running(say)
        print("deaths", len(part.deaths), part.log.read_text().count("hello"))
    """)
    messages = [line for line in scenario.output.splitlines() if line.startswith("message:")]
    assert len(messages) == 2
    assert "part died (exit code 3) and restarts: see" in messages[0]
    assert "part died 2 times within 60 s and stays down" in messages[1]
    assert scenario.says("deaths") == "2 2"


def test_message_about_a_dead_part_names_the_signal_that_ended_it(run_scenario):
    scenario = run_scenario("""
        module.MAX_RESTARTS = 1
        part = program("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        await part.start()
        await part.keep_running(say)
    """)
    assert "part died (signal SIGKILL) and restarts: see" in scenario.says("message:")


def test_part_without_program_raises_part_failed(run_scenario):
    scenario = run_scenario("""
        part = Part("prometheus", ["/no/such/program"], "", None, folder / "log")
        try:
            await part.start()
        except PartFailed as error:
            print("failed", error)
    """)
    assert "cannot start prometheus" in scenario.says("failed")


def test_part_has_its_environment_niceness_and_log(run_scenario):
    scenario = run_scenario("""
        tell = "print('e', file=sys.stderr); print(os.environ['X'], os.nice(0), os.getsid(0) == os.getpid())"
        part = program("import os, sys; " + tell, env={"X": "y"}, nice=5)
        await part.start()
        await part.process.wait()
        print("log", part.last_lines().splitlines())
        print("none", repr(Part("x", [], "", None, folder / "no.log").last_lines()))
    """)
    niceness = min(os.nice(0) + 5, 19)
    assert scenario.says("log") == str(["e", f"y {niceness} True"])
    assert scenario.says("none") == "''"


HEAD_WITH_SERVER = f"""{HEAD}
SERVER = '''
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ok" else 503)
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever(0.01)
'''
async def serving(name):
    part = program(SERVER, name)
    await part.start()
    while not (port := part.last_lines(1)):
        await asyncio.sleep(0.02)
    part.url = "http://127.0.0.1:" + port
    return part
"""


def test_part_is_healthy_only_while_it_runs_and_answers_200(run_scenario):
    statements = """
        async with aiohttp.ClientSession() as session:
            idle = program("")
            idle.health = "http://127.0.0.1:1/"
            results = [await idle.is_healthy(session)]  # not started yet
            part = await serving("part")
            for health in (part.url + "/ok", part.url + "/bad", "http://127.0.0.1:1/", None):
                part.health = health
                results.append(await part.is_healthy(session))
            part.process.kill()
            await part.process.wait()
            results.append(await part.is_healthy(session))
            print("healthy", results)
    """
    scenario = run_scenario(statements, HEAD_WITH_SERVER)
    assert scenario.says("healthy") == "[False, True, False, False, True, False]"


def test_answer_of_a_stranger_at_the_url_of_a_part_is_not_health(run_scenario):
    statements = """
        async with aiohttp.ClientSession() as session:
            stranger, part = await serving("stranger"), program("import time; time.sleep(60)")
            stranger.health = part.health = stranger.url + "/ok"
            part.url = stranger.url
            await part.start()
            print("healthy", await stranger.is_healthy(session), await part.is_healthy(session))
            end_all([stranger, part])
    """
    scenario = run_scenario(statements, HEAD_WITH_SERVER)
    assert scenario.says("healthy") == "True False"


def test_end_all_ends_every_process_within_five_seconds(run_scenario):
    """End a stopped part, a part that ignores SIGTERM, and a grandchild whose parent has ended."""
    scenario = run_scenario("""
        orphan = "import os, time; os.fork() and os._exit(0); os.setsid(); print('up', flush=True); time.sleep(60)"
        ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)"
        become_subreaper()
        parts = [program("import time; time.sleep(60)", "stopped"), program(f"{ignore}; time.sleep(60)", "deaf"),
                 program(orphan, "orphan")]
        for part in parts:
            await part.start()
        while not (parts[1].last_lines() and parts[2].last_lines()):
            await asyncio.sleep(0.01)
        os.kill(parts[0].process.pid, signal.SIGSTOP)
        before = len(psutil.Process().children(recursive=True))
        begin = time.monotonic()
        await asyncio.to_thread(end_all, parts)
        left = [p.pid for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
        print("ended", before >= 3, left, time.monotonic() - begin < 5.0, flush=True)
    """)
    assert scenario.says("ended") == "True [] True"


def test_end_of_parts_that_obey_sigterm_does_not_wait_for_the_kill(run_scenario):
    scenario = run_scenario("""
        parts = [program("import time; time.sleep(60)", str(number)) for number in range(3)]
        for part in parts:
            await part.start()
        begin = time.monotonic()
        await asyncio.to_thread(end_all, parts)
        print("in time", time.monotonic() - begin < module.KILL_AFTER_SECONDS)
    """)
    assert scenario.says("in time") == "True"


def test_part_ends_when_its_supervisor_is_killed(start_rank):
    scenario = start_rank(HEAD + """
async def main():
    part = program("import time; time.sleep(60)")
    await part.start()
    print("part", part.process.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
""")  # fmt: skip
    pid = int(scenario.says("part"))
    try:
        scenario.signal(signal.SIGKILL)
        scenario.wait()
        assert eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_missing_program_is_reported_with_package_to_install():
    with pytest.raises(PartFailed) as caught:
        find_program("no-such-program", "nor-this")
    assert "apt-get install prometheus prometheus-alertmanager" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert find_program("no-such-program", "sh").endswith("/sh")
