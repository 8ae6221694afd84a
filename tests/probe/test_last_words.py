"""Tests of the last words in the box of a rank: an exception, a plain exit or SIGTERM leaves some, and a kill none."""

import contextlib
import ctypes
import os
from dataclasses import dataclass
from signal import SIGCONT, SIGINT, SIGKILL, SIGTERM

import pytest

from tests.boxes import eventually
from zmon.box.reader import BoxReader
from zmon.process import process_stat

HEAD = """
import atexit, os, signal, sys, time
from zmon import probe
"""
ATTACH = HEAD + "assert probe.attach_box()\n"
WAIT = "print('ready', flush=True)\ntime.sleep(60)\n"
RAISE = "raise ValueError('bad batch 17')\n"
ANOTHER_THREAD = """
import ctypes
libc = ctypes.CDLL(None)
libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, ctypes.cast(libc.pause, ctypes.c_void_p), None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
"""
HIDE_C_MODULE = "import sys\nsys.modules['zmon.probe._signal_sender'] = None\n"
HANDLERS = {
    "raises": "def end(*_):\n    raise RuntimeError('preempted')\nsignal.signal(signal.SIGTERM, end)\n",
    "exits": "def end(*_):\n    print('my handler', flush=True)\n    sys.exit(7)\nsignal.signal(signal.SIGTERM, end)\n",
}
HOOK = "sys.excepthook = lambda kind, error, trace: print('my hook', error, flush=True)\n"
CATCHES_AN_EXIT = "try:\n    sys.exit(2)\nexcept SystemExit:\n    pass\nprobe.phase('forward')\n"
SIGNALLED_WHILE_LEAVING = """
atexit.register(time.sleep, 60)
def hook(*_):
    print("ready", flush=True)
sys.excepthook = hook
"""
HANDLES_SIGNALS = """
signals = []
handler = lambda *_: signals.append(1)
assert signal.signal(signalnum=signal.SIGTERM, handler=handler) is signal.SIG_DFL
assert signal.getsignal(signal.SIGTERM) is handler
os.kill(os.getpid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGTERM)
assert signals == [1, 1], signals
assert signal.signal(signal.SIGTERM, signal.SIG_IGN) is handler
os.kill(os.getpid(), signal.SIGTERM)
"""
TERMINATES_A_WORKER = """
child = os.fork()
if not child:
    time.sleep(60)
os.kill(child, signal.SIGTERM)
assert os.WTERMSIG(os.waitpid(child, 0)[1]) == 15
"""


def blocked(statement):
    """Return a script that is ready and then runs a statement for long."""
    return f"def main():\n    exec({statement!r})\nprint('ready', flush=True)\nmain()\n"


@dataclass(frozen=True)
class Ending:
    """A script that ends, by itself or by a signal once it is ready, and the last words that it leaves."""

    script: str
    code: int
    kind: str = "exception"  # "": none
    type: str = ""
    message: str = ""  # a part of it
    sent: int | None = None  # the signal that the test sends
    sender: str = ""  # of a signal: "test", or "rank" itself
    late_sender: str = ""  # likewise of a signal after the last words
    activity: str = "init"
    output: str = ""  # a part of it
    seconds: float = 20.0  # in which it ends


def exception(script, name="ValueError", message="bad batch 17", code=1, **more):
    """Return the ending by a built-in exception."""
    return Ending(script, code, "exception", f"builtins.{name}", message, **more)


def plain_exit(script, sender=""):
    """Return the ending by a clean exit."""
    return Ending(script, 0, "exit", sender=sender, activity="done")


def terminated(script, sender="test", message="Stack (most recent call first)", **more):
    """Return the ending by a SIGTERM of the test."""
    return Ending(script, -SIGTERM, "signal", "SIGTERM", message, SIGTERM, sender, **more)


def terminated_at_once(statement):
    """Return the ending by a SIGTERM while a statement runs for long."""
    return terminated(ATTACH + blocked(statement), message="main", seconds=2.0)


ENDINGS = {
    "exception": exception(ATTACH + RAISE, output="ValueError: bad batch 17\n"),
    "exception whose message fails": Ending(
        ATTACH + "class BadBatch(Exception):\n    __str__ = lambda self: self.batch\nraise BadBatch", 1,
        type="__main__.BadBatch", output="BadBatch: <exception str() failed>",
    ),
    "end of the script": plain_exit(ATTACH),
    "end of the script, after the thread that trained": plain_exit(
        HEAD + "import threading\n"
        "thread = threading.Thread(target=probe.attach_box)\nthread.start()\nthread.join()\nassert probe.current\n"
    ),
    "exit()": plain_exit(ATTACH + "sys.exit()"),
    "exit(0)": plain_exit(ATTACH + "sys.exit(0)"),
    # If such an exit counted as plain, its peers, which die of broken connections, would become the culprits.
    "exit with a code": exception(ATTACH + "sys.exit(3)", "SystemExit", "3", code=3),
    "exit with a message": exception(ATTACH + "sys.exit('bad data')", "SystemExit", "bad data"),
    "exit that the job catches": plain_exit(ATTACH + CATCHES_AN_EXIT),
    "os._exit": Ending(ATTACH + "os._exit(1)", 1, ""),
    "kill": Ending(ATTACH + WAIT, -SIGKILL, "", sent=SIGKILL),
    "Ctrl-C": exception(ATTACH + WAIT, "KeyboardInterrupt", "", -SIGINT, sent=SIGINT),
    # The sender needs the C module, which `make setup-dev` builds: it installs the compiler.
    "SIGTERM": terminated(ATTACH + WAIT),
    "SIGTERM beside handlers of others": terminated(ATTACH + "signal.signal(signal.SIGUSR1, lambda *_: None)\n" + WAIT),
    "SIGTERM without the C module": terminated(HIDE_C_MODULE + ATTACH + WAIT, sender=""),
    "SIGTERM in a system call": terminated_at_once("time.sleep(60)"),
    "SIGTERM in native code that holds the GIL": terminated_at_once(
        "import ctypes\nctypes.PyDLL(None).usleep(60_000_000)"
    ),
    "SIGTERM at work": terminated_at_once("while True: pass"),
    "SIGTERM to a thread of native code": terminated(ATTACH + ANOTHER_THREAD + WAIT, message="in another thread"),
    "handler of before attach that raises": exception(
        HEAD + HANDLERS["raises"] + "assert probe.attach_box()\n" + WAIT, "RuntimeError", "preempted",
        sent=SIGTERM, sender="test",
    ),
    "handler of after attach that raises": exception(
        ATTACH + HANDLERS["raises"] + WAIT, "RuntimeError", "preempted", sent=SIGTERM, sender="test"
    ),
    "handler of before attach that exits": exception(
        HEAD + HANDLERS["exits"] + "assert probe.attach_box()\n" + WAIT, "SystemExit", "7", 7,
        sent=SIGTERM, sender="test", output="my handler",
    ),
    "handler of after attach that exits": exception(
        ATTACH + HANDLERS["exits"] + WAIT, "SystemExit", "7", 7, sent=SIGTERM, sender="test", output="my handler"
    ),
    "exception before a signal": exception(
        HEAD + SIGNALLED_WHILE_LEAVING + "assert probe.attach_box()\n" + RAISE, code=-SIGTERM, sent=SIGTERM,
        late_sender="test",
    ),
    "handlers that do not end it": plain_exit(ATTACH + HANDLES_SIGNALS, sender="rank"),
    # Packages such as rich and sentry replace the hook; the exception must still not look like a plain exit.
    "exception, excepthook of before attach": exception(
        HEAD + HOOK + "probe.attach_box()\n" + RAISE, output="my hook bad batch 17\n"
    ),
    "exception, excepthook of after attach": exception(ATTACH + HOOK + RAISE, output="my hook bad batch 17\n"),
    "worker that was terminated": plain_exit(ATTACH + TERMINATES_A_WORKER),
}  # fmt: skip


def read_now(rank):
    """Return the last state of a rank."""
    with contextlib.closing(BoxReader(rank.box)) as reader:
        return reader.now()


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_last_words_say_how_a_rank_ended(start_rank, ending):
    rank = start_rank(ending.script)
    if ending.sent is not None:
        rank.says("ready")
        rank.signal(ending.sent)
    assert rank.wait(ending.seconds) == ending.code
    assert ending.output in rank.output
    words = rank.words()
    if not ending.kind:
        assert words is None
        return
    assert (words.kind, words.type) == (ending.kind, ending.type)
    assert ending.message in words.message
    pids = {"test": os.getpid(), "rank": rank.pid}
    assert (words.sender_pid, words.late_sender_pid) == (pids.get(ending.sender), pids.get(ending.late_sender))
    assert read_now(rank).activity == ending.activity


def test_sigterm_ends_a_rank_that_waits_in_a_collective_at_once(start_rank, tmp_path):
    script = f"""
        import torch, torch.distributed as dist, zmon
        assert zmon.attach()
        import os
        rank = int(os.environ["RANK"])
        dist.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=rank, world_size=2)
        print("joined", flush=True)
        if rank == 0:
            dist.all_reduce(torch.ones(1))
        else:
            import time; time.sleep(60)
    """
    ranks = [start_rank(script, number, 2, GLOO_SOCKET_IFNAME="lo") for number in range(2)]
    for rank in ranks:
        rank.says("joined")
    assert eventually(lambda: read_now(ranks[0]).op == "all_reduce", 20)
    # To the main thread: a thread that gloo has just started may take the signal of a process on a busy machine.
    ctypes.CDLL(None).tgkill(ranks[0].pid, ranks[0].pid, SIGTERM)
    assert ranks[0].wait(2.0) == -SIGTERM
    assert ranks[0].words().kind == "signal"
    assert "all_reduce" in ranks[0].words().message


OUTLIVE = """
import threading
def outlive(trains=False):
    if trains:
        probe.current.adopt_thread()
    started.set()
    if threading.current_thread() is not threading.main_thread():
        threading.main_thread().join()
    print("ended", flush=True)
    time.sleep(60)
started = threading.Event()
"""
TRAINED = ATTACH + OUTLIVE + "probe.current.turn_to(probe.TRAIN)\n"
THREAD = "threading.Thread(target=outlive).start()\n"
TRAINER = "threading.Thread(target=outlive, args=[True]).start()\nstarted.wait()\n"
HANDLER = "atexit.register(outlive)\n"
EXITING = {  # what the program does before its end, the kind of last words that it has left then, its activity
    "a thread does not end": (TRAINED + THREAD, "exit", "done"),
    "an exit handler does not return": (TRAINED + HANDLER, "exit", "done"),
    "an exit handler does not return after an error": (TRAINED + HANDLER + "sys.exit(3)\n", "exception", "train"),
    "the thread that trains goes on": (TRAINED + TRAINER, None, "train"),
    "a thread goes on that has not trained yet": (ATTACH + OUTLIVE + THREAD, None, "init"),
}


@pytest.mark.parametrize(("script", "kind", "activity"), EXITING.values(), ids=EXITING)
def test_rank_that_hangs_in_its_exit_has_left_last_words(start_rank, script, kind, activity):
    rank = start_rank(script)
    rank.says("ended")
    words = rank.words()
    assert (words and words.kind, read_now(rank).activity) == (kind, activity)


WORKERS = {
    "ends": "sys.exit(3)",
    "raises": "raise ValueError('in the worker')",
    "is terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
}


def test_end_of_a_forked_worker_leaves_no_last_words_in_its_rank(start_rank):
    forks = "".join(
        f"worker = os.fork()\nif not worker:\n    {ending}\nos.waitpid(worker, 0)\n"
        f"print({how!r}, flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)\n"
        for how, ending in WORKERS.items()
    )
    rank = start_rank(ATTACH + forks)
    for how in WORKERS:
        rank.says(how)
        assert rank.words() is None, how
        assert read_now(rank).activity == "init", how
        assert eventually(lambda: process_stat(rank.pid).state == "T")
        rank.signal(SIGCONT)


def test_forked_worker_keeps_the_sigterm_handler_of_the_job(start_rank):
    rank = start_rank(
        HEAD
        + "probe.attach_box()\n"
        + HANDLERS["exits"]
        + "worker = os.fork()\n"
        + "if not worker:\n    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(5)\n"
        + "print('worker ended', os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]), flush=True)\nos._exit(0)\n"
    )
    assert rank.says("worker ended") == "7"


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(("end", "code"), [("", 0), (RAISE, 1)], ids=["ends", "raises"])
def test_rank_in_a_multiprocessing_child_leaves_last_words(start_rank, tmp_path, method, end, code):
    """Ranks of torch.multiprocessing.spawn and notebooks are such children; a clean end must not look like a kill.

    Their exceptions do not reach `sys.excepthook`, because multiprocessing prints them.
    """
    (tmp_path / "child.py").write_text(
        f"from zmon import probe\ndef main():\n    assert probe.attach_box()\n    {end or 'pass'}\n"
    )
    rank = start_rank(
        f"import multiprocessing, sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport child\n"
        "if __name__ == '__main__':\n"
        f"    worker = multiprocessing.get_context({method!r}).Process(target=child.main)\n"
        "    worker.start()\n    worker.join()\n    print('ended', worker.exitcode, flush=True)\n"
    )
    assert rank.wait() == 0
    assert rank.says("ended") == str(code)
    words = rank.words()
    expected = ("exception", "builtins.ValueError", "bad batch 17") if end else ("exit", "", "")
    assert (words.kind, words.type, words.message) == expected
    assert (read_now(rank).activity == "done") == (not end)
