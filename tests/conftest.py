"""Fixtures that start ranks as processes or stand-ins; run coroutines; mark the kind of each test; reset signals."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import inspect
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.boxes import StandIn, eventually
from tests.kinds import ALONE, is_apart, kind_of, may_have_more_than_units
from tests.notify.endpoints import HttpEndpoint
from tests.places import REPOSITORY
from zmon.box import box_path
from zmon.box.reader import BoxReader
from zmon.cli.main import main
from zmon.process import ExitWatch

# Tests that run in the background or under nohup ignore these signals, and so do their children: ranks and launchers
# would never receive a Ctrl-C. A signal that a process handles is at its default again in its children. So the tests
# handle both signals, and go on when their terminal is closed, as nohup intends.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of units if only tests are wanted that run alone."""
    if not config.option.markexpr.startswith(ALONE) or not collection_path.name.startswith("test_"):
        return None
    return not _may_have_more_than_units(collection_path) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without garbage collection, which would take a third of the CPU time, then exempt them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def _may_have_more_than_units(path: Path) -> bool:
    return may_have_more_than_units(path.relative_to(REPOSITORY).as_posix(), path.read_text())


@pytest.hookimpl(tryfirst=True)  # before pytest looks for the markers that -m names
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its kind."""
    for item in items:
        marked = [mark.name for mark in item.iter_markers()]
        try:
            kind = kind_of(item.nodeid, marked, getattr(item, "fixturenames", ()))
        except ValueError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from None
        if kind != "unit" and not _may_have_more_than_units(item.path):
            raise pytest.UsageError(f"{item.nodeid}: it is no unit, but its file does not say so: see tests/kinds.py")
        if kind not in marked:
            item.add_marker(kind)
        if is_apart(item.nodeid, kind, is_slow="slow" in marked):
            item.add_marker("apart")


COROUTINE_SECONDS = 60.0  # a coroutine that runs for longer hangs: none takes this long, even on a busy machine


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop: that of its fixtures, if they have one."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted})
    runner = pyfuncitem.funcargs.get("event_loop_runner")
    run = asyncio.run if runner is None else runner.run
    run(asyncio.wait_for(test, COROUTINE_SECONDS))
    return True


@pytest.fixture
def event_loop_runner() -> Iterator[asyncio.Runner]:
    """Yield the event loop of a test that is a coroutine, for fixtures that begin or end something in it."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def opened(event_loop_runner: asyncio.Runner) -> Iterator[contextlib.AsyncExitStack]:
    """Yield a stack of what a test opens in its event loop; it is closed after the test."""
    stack = contextlib.AsyncExitStack()
    yield stack
    event_loop_runner.run(stack.aclose())


class Zygote:
    """A client of a `tests/zygote.py` process."""

    def __init__(self, *modules: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote", *modules],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("ZMON_")} | {"OMP_NUM_THREADS": "1"} | env,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request and return the answer."""
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


@dataclass
class Rank:
    """A process that runs a script with zmon in it."""

    zygote: Zygote
    pid: int
    log: Path
    boxes: Path
    number: int
    status: int | None = None

    @property
    def box(self) -> Path:
        """The path of the rank's box, which may not exist."""
        return box_path(self.boxes, "job", 0, self.number)

    @property
    def output(self) -> str:
        """The output of the rank so far, stderr and stdout together."""
        return self.log.read_text()

    def says(self, word: str) -> str:
        """Wait until the rank has printed a line that begins with `word`, and return the rest of the line."""

        def lines() -> list[str]:
            return [
                line for line in self.output.splitlines(keepends=True) if line.startswith(word) and line[-1] == "\n"
            ]

        assert eventually(lines, 20), f"it never printed {word!r} but: {self.output}"
        return lines()[0][len(word) :].strip()

    def signal(self, number: int) -> None:
        """Send a signal to the rank."""
        os.kill(self.pid, number)

    def wait(self, seconds: float = 20.0) -> int:
        """Wait for the end of the rank and return its exit code, negative for a signal."""
        if self.status is None:
            watch = ExitWatch(self.pid)
            ended = watch.ended(seconds)
            watch.close()
            assert ended, f"it still runs after {seconds:g} s: {self.output}"
            self.status = self.zygote.ask(wait=self.pid)["status"]
        return os.waitstatus_to_exitcode(self.status)

    def words(self) -> Any:
        """Return the last words of the rank."""
        with contextlib.closing(BoxReader(self.box)) as reader:
            return reader.words()


def _zygote(*modules: str, **env: str) -> Iterator[Zygote]:
    started = Zygote(*modules, **env)
    yield started
    started.process.stdin.close()
    started.process.wait(timeout=10)


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Yield a zygote that forks processes with zmon in them; it is started once."""
    yield from _zygote("zmon.stack")


@pytest.fixture(scope="session")
def torch_zygote() -> Iterator[Zygote]:
    """Yield a zygote that has also imported torch and the part that the first optimizer of a process loads (1 s)."""
    yield from _zygote("zmon", "torch.distributed", "torch._dynamo")


@pytest.fixture(scope="session")
def torch_zygote_of_python_edge() -> Iterator[Zygote]:
    """Yield a zygote like `torch_zygote`, whose ranks run the Python edge."""
    yield from _zygote("zmon", "torch.distributed", "torch._dynamo", ZMON_EDGE="python")


@contextlib.contextmanager
def ranks_in(folder: Path) -> Iterator[Callable[..., Rank]]:
    """Yield a function that runs a script as rank `number` of `job`; ranks that still run afterwards are killed."""
    ranks: list[Rank] = []

    def start(zygote: Zygote, script: Path, number: int = 0, world_size: int = 1, **env: str) -> Rank:
        boxes = Path(env.get("ZMON_BOX_DIR", folder / "boxes"))
        environment = {
            "ZMON_BOX_DIR": str(boxes),
            "ZMON_JOB_ID": "job",
            "RANK": str(number),
            "LOCAL_RANK": str(number),
            "WORLD_SIZE": str(world_size),
            "LOCAL_WORLD_SIZE": str(world_size),
            **env,
        }
        log = folder / f"log-{len(ranks)}"
        pid = zygote.ask(run=str(script), env=environment, log=str(log))["pid"]
        ranks.append(Rank(zygote, pid, log, boxes, number))
        eventually(log.exists)
        return ranks[-1]

    try:
        yield start
    finally:
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(rank.pid, signal.SIGKILL)  # its workers too
            rank.wait()


@pytest.fixture
def start_rank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Rank]]:
    """Return a function that runs a script as rank `number` of `job`; ranks that still run after the test are killed.

    `zmon.attach` needs torch for its hooks; `zmon.probe.attach_box` is the same without them.
    """
    numbers = itertools.count()
    with ranks_in(tmp_path) as start_file:

        def start(script: str, number: int = 0, world_size: int = 1, **env: str) -> Rank:
            file = tmp_path / f"script-{next(numbers)}.py"
            file.write_text(textwrap.dedent(script))
            needs_torch = "zmon.attach" in script or "torch" in script
            name = "torch_zygote" if needs_torch else "zygote"
            if env.get("ZMON_EDGE") == "python":  # a process that has imported zmon keeps its edge
                name = "torch_zygote_of_python_edge"
            zygote = request.getfixturevalue(name)
            return start_file(zygote, file, number, world_size, **env)

        yield start


@pytest.fixture
def endpoint() -> Iterator[HttpEndpoint]:
    """An HTTP endpoint that records notices."""
    endpoint = HttpEndpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def stand_in() -> Iterator[Callable[[], StandIn]]:
    """Return a function that starts processes which hold boxes; they are ended after the test."""
    started: list[StandIn] = []

    def start() -> StandIn:
        started.append(StandIn())
        return started[-1]

    yield start
    for process in started:
        process.end()


class CommandResult(NamedTuple):
    """The exit code of a command, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., CommandResult]:
    """Return a function that runs `zmon …` in this process.

    The directories are those of the test, and no hub is configured.
    """
    for name in ("ZMON_HUB_URL", "ZMON_CONFIG", "ZMON_AGENTS", "ZMON_WEBHOOK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZMON_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ZMON_BOX_DIR", str(tmp_path / "boxes"))
    monkeypatch.setenv("COLUMNS", "200")

    def run_zmon(*arguments):
        monkeypatch.setattr("sys.argv", ["zmon", *map(str, arguments)])
        interval = sys.getswitchinterval()  # a daemon shortens it, and other tests of this process count on it
        try:
            main()
            code = 0
        except SystemExit as leave:
            code = leave.code or 0
        finally:
            sys.setswitchinterval(interval)
        return CommandResult(code, *capsys.readouterr())

    return run_zmon
