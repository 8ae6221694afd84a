"""Tests of the last words in the box of a rank that has ended.

Last words record an exception, a plain exit or SIGTERM. A rank that was killed leaves none.
"""

import os
import signal

import pytest

from tests.boxes import eventually
from zmon.box.reader import BoxReader

HEAD = """
import atexit, os, signal, sys, time
from zmon import probe
"""
ATTACH = HEAD + "assert probe.attach_box()\n"


def read_activity(rank):
    reader = BoxReader(rank.box)
    try:
        return reader.now().activity
    finally:
        reader.close()


def read_op_in_flight(rank):
    reader = BoxReader(rank.box)
    try:
        return reader.now().op
    finally:
        reader.close()


def test_exception_is_recorded_with_its_type_and_message(start_rank):
    rank = start_rank(ATTACH + "raise ValueError('bad batch 17')\n")
    assert rank.wait() == 1
    words = rank.words()
    assert (words.kind, words.type, words.message) == ("exception", "builtins.ValueError", "bad batch 17")
    assert read_activity(rank) == "init"
    assert rank.output.endswith("ValueError: bad batch 17\n")


@pytest.mark.parametrize("ending", ["", "sys.exit()", "sys.exit(0)", "sys.exit(None)"])
def test_end_of_the_script_is_a_plain_exit(start_rank, ending):
    rank = start_rank(ATTACH + ending + "\n")
    assert rank.wait() == 0
    assert (rank.words().kind, read_activity(rank)) == ("exit", "done")


@pytest.mark.parametrize(("ending", "code"), [("sys.exit(3)", 3), ("sys.exit('bad data')", 1)])
def test_exit_with_a_code_is_not_a_plain_exit(start_rank, ending, code):
    """If such an exit counted as plain, its peers, which die of broken connections, would become the culprits."""
    rank = start_rank(ATTACH + ending + "\n")
    assert rank.wait() == code
    words = rank.words()
    assert (words.kind, words.type, words.message) == ("exception", "builtins.SystemExit", ending[9:-1].strip("'"))
    assert read_activity(rank) == "init"


def test_exit_caught_by_the_job_is_not_in_the_last_words(start_rank):
    script = "try:\n    sys.exit(2)\nexcept SystemExit:\n    pass\nprobe.phase('forward')\n"
    rank = start_rank(ATTACH + script)
    assert rank.wait() == 0
    assert rank.words().kind == "exit"


def test_killed_rank_leaves_no_last_words(start_rank):
    rank = start_rank(ATTACH + "print('attached', flush=True)\ntime.sleep(60)\n")
    rank.says("attached")
    rank.signal(signal.SIGKILL)
    assert rank.wait() == -signal.SIGKILL
    assert rank.words() is None


@pytest.mark.parametrize("handler", ["", "signal.signal(signal.SIGUSR1, lambda *_: None)\n"], ids=["alone", "others"])
def test_last_words_of_a_signal_have_its_sender_and_the_stack(start_rank, handler):
    """This needs the C module, which `make setup-dev` builds: it installs the compiler."""
    rank = start_rank(ATTACH + handler + "print('attached', flush=True)\ntime.sleep(60)\n")
    rank.says("attached")
    rank.signal(signal.SIGTERM)
    assert rank.wait() == -signal.SIGTERM
    words = rank.words()
    assert (words.kind, words.sender_pid) == ("signal", os.getpid())
    assert words.message.startswith("Stack (most recent call first)")


HANDLER = """
def end(*_):
    raise RuntimeError("preempted")
signal.signal(signal.SIGTERM, end)
"""


@pytest.mark.parametrize(
    "script",
    [HEAD + HANDLER + "assert probe.attach_box()\n", ATTACH + HANDLER],
    ids=["handler before attach", "handler after attach"],
)
def test_exception_that_follows_a_signal_has_its_sender_if_the_job_handles_the_signal(start_rank, script):
    rank = start_rank(script + "print('ready', flush=True)\ntime.sleep(60)\n")
    rank.says("ready")
    rank.signal(signal.SIGTERM)
    assert rank.wait() == 1
    words = rank.words()
    assert (words.kind, words.type, words.sender_pid) == ("exception", "builtins.RuntimeError", os.getpid())


def test_exception_before_a_signal_has_the_sender_as_a_late_one(start_rank):
    script = """
atexit.register(time.sleep, 60)
def hook(*_):
    print("leaving", flush=True)
sys.excepthook = hook
"""
    rank = start_rank(HEAD + script + "assert probe.attach_box()\nraise ValueError('bad batch')\n")
    rank.says("leaving")
    rank.signal(signal.SIGTERM)
    assert rank.wait() != 0
    words = rank.words()
    assert (words.type, words.sender_pid, words.late_sender_pid) == ("builtins.ValueError", None, os.getpid())


def test_handler_of_the_job_runs_and_is_what_python_says_it_is(start_rank):
    script = """
seen = []
handler = lambda *_: seen.append(1)
assert signal.signal(signalnum=signal.SIGTERM, handler=handler) is signal.SIG_DFL
assert signal.getsignal(signal.SIGTERM) is handler
os.kill(os.getpid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGTERM)
assert seen == [1, 1], seen
assert signal.signal(signal.SIGTERM, signal.SIG_IGN) is handler
os.kill(os.getpid(), signal.SIGTERM)
"""
    rank = start_rank(ATTACH + script)
    assert rank.wait() == 0
    assert rank.words().kind == "exit"


def test_sender_of_a_signal_is_unknown_without_the_c_module(start_rank):
    hidden = "import sys\nsys.modules['zmon.probe._signal_sender'] = None\n"
    rank = start_rank(hidden + ATTACH + "print('attached', flush=True)\ntime.sleep(60)\n")
    rank.says("attached")
    rank.signal(signal.SIGTERM)
    assert rank.wait() == -signal.SIGTERM
    assert (rank.words().kind, rank.words().sender_pid) == ("signal", None)


def test_worker_that_a_rank_has_forked_leaves_no_sender(start_rank):
    script = """
child = os.fork()
if not child:
    time.sleep(60)
print("forked", flush=True)
os.kill(child, signal.SIGTERM)
print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
"""
    rank = start_rank(ATTACH + script)
    rank.says("forked")
    rank.says("15")
    assert rank.wait() == 0
    assert rank.words().kind == "exit"


def test_rank_that_calls_os_exit_leaves_no_last_words(start_rank):
    rank = start_rank(ATTACH + "os._exit(1)\n")
    assert rank.wait() == 1
    assert rank.words() is None


BLOCKS = {
    "in a system call": "time.sleep(60)",
    "in native code that holds the GIL": "import ctypes\nctypes.PyDLL(None).usleep(60_000_000)",
    "at work": "while True: pass",
}


@pytest.mark.parametrize("where", BLOCKS)
def test_sigterm_ends_a_rank_at_once_and_leaves_its_stack(start_rank, where):
    main = f"def main():\n    exec({BLOCKS[where]!r})\n"
    rank = start_rank(ATTACH + main + "print('attached', flush=True)\nmain()\n")
    rank.says("attached")
    rank.signal(signal.SIGTERM)
    assert rank.wait(2.0) == -signal.SIGTERM
    words = rank.words()
    assert (words.kind, words.type) == ("signal", "SIGTERM")
    assert "main" in words.message


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
    assert eventually(lambda: read_op_in_flight(ranks[0]) == "all_reduce", 20)
    ranks[0].signal(signal.SIGTERM)
    assert ranks[0].wait(2.0) == -signal.SIGTERM
    assert ranks[0].words().kind == "signal"
    assert "all_reduce" in ranks[0].words().message


def test_sigint_is_recorded_as_a_keyboard_interrupt(start_rank):
    rank = start_rank(ATTACH + "print('attached', flush=True)\ntime.sleep(60)\n")
    rank.says("attached")
    rank.signal(signal.SIGINT)
    assert rank.wait() == -signal.SIGINT
    assert rank.words().type == "builtins.KeyboardInterrupt"


# -- the job's own handlers --------------------------------------------------------------------------------

HANDLER = """
def handler(number, frame):
    print("my handler", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, handler)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_sigterm_handler_of_the_job_is_called(start_rank, when):
    steps = [HANDLER, "assert probe.attach_box()\n"] if when == "before" else ["probe.attach_box()\n", HANDLER]
    rank = start_rank(HEAD + "".join(steps) + "print('attached', flush=True)\ntime.sleep(60)\n")
    rank.says("attached")
    rank.signal(signal.SIGTERM)
    assert rank.wait() == 7
    assert "my handler" in rank.output


HOOK = "sys.excepthook = lambda kind, error, trace: print('my hook', error, flush=True)\n"


@pytest.mark.parametrize("when", ["before", "after"])
def test_exception_is_recorded_if_the_job_has_an_excepthook(start_rank, when):
    """Packages such as rich and sentry replace the hook; the exception must still not look like a plain exit."""
    steps = [HOOK, "probe.attach_box()\n"] if when == "before" else ["probe.attach_box()\n", HOOK]
    rank = start_rank(HEAD + "".join(steps) + "raise ValueError('bad batch 17')\n")
    assert rank.wait() == 1
    assert rank.output == "my hook bad batch 17\n"
    assert read_activity(rank) != "done"
    words = rank.words()
    assert (words.kind, words.type, words.message) == ("exception", "builtins.ValueError", "bad batch 17")


# -- workers -----------------------------------------------------------------------------------------------

WORKERS = {
    "ends": "sys.exit(3)",
    "raises": "raise ValueError('in the worker')",
    "is terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("ending", WORKERS)
def test_end_of_a_forked_worker_leaves_no_last_words_in_its_rank(start_rank, ending):
    rank = start_rank(
        ATTACH
        + "worker = os.fork()\n"
        + f"if not worker:\n    {WORKERS[ending]}\n"
        + "os.waitpid(worker, 0)\nprint('waited', flush=True)\ntime.sleep(60)\n"
    )
    rank.says("waited")
    assert rank.words() is None
    assert read_activity(rank) == "init"


def test_forked_worker_keeps_the_sigterm_handler_of_the_job(start_rank):
    rank = start_rank(
        HEAD
        + "probe.attach_box()\n"
        + HANDLER
        + "worker = os.fork()\n"
        + "if not worker:\n    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(5)\n"
        + "print('worker ended', os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]), flush=True)\nos._exit(0)\n"
    )
    assert rank.says("worker ended") == "7"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_end_of_a_rank_in_a_multiprocessing_child_is_a_plain_exit(start_rank, tmp_path, method):
    """Ranks of torch.multiprocessing.spawn and notebooks are such children; a clean end must not look like a kill."""
    (tmp_path / "child.py").write_text("from zmon import probe\ndef main():\n    assert probe.attach_box()\n")
    rank = start_rank(
        f"import multiprocessing, sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport child\n"
        "if __name__ == '__main__':\n"
        f"    worker = multiprocessing.get_context({method!r}).Process(target=child.main)\n"
        "    worker.start()\n    worker.join()\n    print('ended', worker.exitcode)\n"
    )
    assert rank.wait() == 0
    assert rank.says("ended") == "0"
    assert rank.words() is not None
    assert rank.words().kind == "exit"
    assert read_activity(rank) == "done"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_exception_in_a_multiprocessing_child_is_recorded(start_rank, tmp_path, method):
    """The exception does not reach `sys.excepthook`, because multiprocessing prints it."""
    (tmp_path / "child.py").write_text(
        "from zmon import probe\ndef main():\n    assert probe.attach_box()\n    raise ValueError('bad batch 17')\n"
    )
    rank = start_rank(
        f"import multiprocessing, sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport child\n"
        "if __name__ == '__main__':\n"
        f"    worker = multiprocessing.get_context({method!r}).Process(target=child.main)\n"
        "    worker.start()\n    worker.join()\n    print('ended', worker.exitcode, flush=True)\n"
    )
    assert rank.wait() == 0
    assert rank.says("ended") == "1"
    words = rank.words()
    assert (words.kind, words.type, words.message) == ("exception", "builtins.ValueError", "bad batch 17")
    assert read_activity(rank) != "done"
