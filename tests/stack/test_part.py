"""A part of the stack: started, watched, restarted, and ended with all its children.

Each scenario runs in its own process, because `end_all` ends all children of the process.
"""

import contextlib
import os
import signal
import socket

import psutil
import pytest

from tests.boxes import eventually
from zmon.errors import PartFailed
from zmon.stack import find_program
from zmon.stack.part import free_port

pytestmark = pytest.mark.e2e
HEAD = """
import asyncio, os, signal, sys, time
from pathlib import Path
import aiohttp
from zmon.errors import PartFailed
from zmon.stack import part as module
from zmon.stack.part import Part, become_subreaper, end_all
folder = Path(__file__).parent
def say(line):
    print("message:", line, flush=True)
def program(code, name="part", **more):
    return Part(name, [sys.executable, "-S", "-E", "-c", code], "", None, folder / f"{name}.log", **more)
"""


def test_part_that_dies_restarts_until_it_keeps_dying(start_rank):
    play = start_rank(HEAD + """
module.MAX_RESTARTS = 1
async def main():
    part = program("print('hello'); raise SystemExit(3)")
    await part.start()
    await part.keep_running(say)
    print("restarts", len(part.restarts), part.log.read_text().count("hello"))
asyncio.run(main())
""")  # fmt: skip
    assert play.wait() == 0
    messages = [line for line in play.output.splitlines() if line.startswith("message:")]
    assert len(messages) == 2
    assert "part died (exit code 3) and restarts: see" in messages[0]
    assert "stays down" in messages[1]
    assert play.says("restarts") == "2 2"


def test_part_that_cannot_be_started_is_one_line(start_rank):
    play = start_rank(HEAD + """
async def main():
    part = Part("prometheus", ["/no/such/program"], "", None, folder / "log")
    try:
        await part.start()
    except PartFailed as error:
        print("failed", error)
asyncio.run(main())
""")  # fmt: skip
    assert play.wait() == 0
    assert "cannot start prometheus" in play.says("failed")


def test_part_has_its_environment_niceness_and_log(start_rank):
    play = start_rank(HEAD + """
async def main():
    tell = "print('e', file=sys.stderr); print(os.environ['X'], os.nice(0), os.getsid(0) == os.getpid())"
    part = program("import os, sys; " + tell, env={"X": "y"}, nice=5)
    await part.start()
    await part.process.wait()
    print("log", part.last_lines().splitlines())
    print("none", repr(Part("x", [], "", None, folder / "no.log").last_lines()))
asyncio.run(main())
""")  # fmt: skip
    assert play.wait() == 0
    niceness = min(os.nice(0) + 5, 19)
    assert play.says("log") == str(["e", f"y {niceness} True"])
    assert play.says("none") == "''"


def test_part_is_healthy_when_it_answers_200_and_only_then(start_rank):
    play = start_rank(HEAD + """
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ok" else 503)
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
async def main():
    base = f"http://127.0.0.1:{server.server_address[1]}"
    async with aiohttp.ClientSession() as session:
        results = []
        part = program("import time; time.sleep(60)")
        part.health = base + "/ok"
        results.append(await part.healthy(session))  # not started yet
        await part.start()
        for health in (base + "/ok", base + "/bad", "http://127.0.0.1:1/", None):
            part.health = health
            results.append(await part.healthy(session))
        part.process.kill()
        await part.process.wait()
        results.append(await part.healthy(session))
        print("healthy", results)
asyncio.run(main())
""")  # fmt: skip
    assert play.wait() == 0
    assert play.says("healthy") == "[False, True, False, False, True, False]"


def test_end_all_ends_every_process_within_five_seconds(start_rank):
    """End a stopped part, a part that ignores SIGTERM, and a grandchild whose parent has ended."""
    play = start_rank(HEAD + """
import psutil
ORPHAN = "import os, time; os.fork() and os._exit(0); os.setsid(); print('up', flush=True); time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
async def main():
    become_subreaper()
    parts = [program("import time; time.sleep(60)", "stopped"), program(DEAF, "deaf"), program(ORPHAN, "orphan")]
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
asyncio.run(main())
""")  # fmt: skip
    assert play.wait() == 0
    assert play.says("ended") == "True [] True"


def test_end_of_parts_that_handle_sigterm_is_immediate(start_rank):
    play = start_rank(HEAD + """
async def main():
    parts = [program("import time; time.sleep(60)", str(n)) for n in range(3)]
    for part in parts:
        await part.start()
    begin = time.monotonic()
    await asyncio.to_thread(end_all, parts)
    print("took", time.monotonic() - begin < 1.0)
asyncio.run(main())
""")  # fmt: skip
    assert play.wait() == 0
    assert play.says("took") == "True"


def test_part_ends_with_its_killed_supervisor(start_rank):
    play = start_rank(HEAD + """
async def main():
    part = program("import time; time.sleep(60)")
    await part.start()
    print("part", part.process.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
""")  # fmt: skip
    pid = int(play.says("part"))
    try:
        play.signal(signal.SIGKILL)
        play.wait()
        assert eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_port_is_the_preferred_one_or_a_free_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = free_port(port)
        assert other != port
    assert free_port(other) == other


def test_missing_program_is_one_line_with_the_package():
    with pytest.raises(PartFailed) as caught:
        find_program("no-such-program", "nor-this")
    assert "apt-get install prometheus prometheus-alertmanager" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert find_program("no-such-program", "sh").endswith("/sh")
