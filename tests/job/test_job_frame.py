"""Tests of the innermost frame of the job's own code, in stacks as py-spy and faulthandler write them."""

import faulthandler
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from zmon.agent.stacks import PY_SPY
from zmon.job.job_frame import is_outside, job_frame
from zmon.schema.training_loops import TrainingLoop

VENV = "/opt/venv/lib/python3.11/site-packages"
LOADING = f"""Python v3.11.7 (/usr/bin/python3.11)

Thread 0x7F (idle): "QueueFeederThread"
    Condition.wait (/usr/lib/python3.11/threading.py:327)
    feed (/home/ann/other.py:7)
Thread 28241 (idle): "MainThread"
    _PollLikeSelector.select (/usr/lib/python3.11/selectors.py:415)
    _BaseDataLoaderIter.__next__ ({VENV}/torch/utils/data/dataloader.py:725)
    Reader.read (/home/ann/job/loader.py:40)
    <module> (/home/ann/job/train.py:11)
"""
SAVING = f"""Thread 0x00007f0 (most recent call first):
  File "/home/ann/other.py", line 7 in feed

Current thread 0x00007f1 (most recent call first):
  File "{VENV}/numpy/lib/npyio.py", line 546 in save
  File "/home/ann/job/train.py", line 88 in save_weights
  File "/home/ann/job/train.py", line 120 in <module>
"""
INSTALLED = f"""
    save ({VENV}/numpy/lib/npyio.py:546)
    write ({VENV}/tune/checkpoint.py:60)
    run ({VENV}/tune/main.py:9)
    spawn ({VENV}/torch/multiprocessing/spawn.py:90)
    <module> (<string>:1)
"""
FRAMES = {
    "py-spy: the job waits for its loader": (LOADING, "read() at loader.py:40"),
    "faulthandler: the job saves": (SAVING, "save_weights() at train.py:88"),
    "last words": ('  File "train.py", line 12 in main', "main() at train.py:12"),
    "the trainer is an installed package": (INSTALLED, "write() at checkpoint.py:60"),
    "a folder of the job named torch": ("    read (/home/ann/torch/train.py:40)", "read() at train.py:40"),
    "a folder of the job named zmon": ("    read (/home/ann/zmon/lab/jobs/ddp.py:40)", "read() at ddp.py:40"),
    "a relative path": ("    read (train.py:40)", "read() at train.py:40"),
    "empty": ("", None),
    "no stack": ("its process is gone", None),
    "no frame of the job": ("    wait (/usr/lib/python3.11/threading.py:3)", None),
}


@pytest.mark.parametrize(("stack", "frame"), FRAMES.values(), ids=FRAMES)
def test_stack_has_its_innermost_frame_of_the_job(stack, frame):
    assert job_frame(stack) == frame


OUTSIDE = (
    "/usr/lib/python3.11/threading.py", "/root/.pyenv/versions/3.13.1/lib/python3.13t/selectors.py", "threading.py",
    "multiprocessing/connection.py", "torch/utils/data/dataloader.py", "/src/pytorch/torch/nn/modules/module.py",
    f"{VENV}/torch/optim/sgd.py", f"{VENV}/torch/_dynamo/eval_frame.py", f"{VENV}/numpy/lib/npyio.py",
    "/usr/lib/python3/dist-packages/pandas/io.py", "/root/.pex/wheels/1a/numpy-1.26.whl/numpy/core.py",
    "/srv/zmon/probe/hooks/loading.py", "/srv/zmon/zmon/__init__.py", "<frozen runpy>", "<string>",
)  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_frames_outside_the_job_are_skipped(path):
    assert job_frame(f"    wait ({path}:3)\n    read (/home/ann/loader.py:40)") == "read() at loader.py:40"
    assert job_frame(f'  File "{path}", line 3 in wait\n  File "/home/ann/loader.py", line 40 in read') == (
        "read() at loader.py:40"
    )


def test_what_faulthandler_writes_about_this_process_is_understood():
    release = threading.Event()
    other = threading.Thread(target=release.wait)
    other.start()
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        release.set()
        other.join()
        file.seek(0)
        stacks = file.read()
    line = sys._getframe().f_lineno - 5  # of `dump_traceback` above
    place = f"{Path(__file__).name}:{line}"
    assert job_frame(stacks) == f"test_what_faulthandler_writes_about_this_process_is_understood() at {place}"


@pytest.mark.skipif(PY_SPY is None, reason="py-spy is not installed")
def test_what_py_spy_writes_about_a_process_is_understood(tmp_path):
    script = tmp_path / "loader.py"
    script.write_text("import time\ndef read():\n    print('up', flush=True)\n    time.sleep(60)\nread()\n")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        dump = [str(PY_SPY), "dump", "--nonblocking", "--full-filenames", "--pid", str(process.pid)]
        stacks = subprocess.run(dump, capture_output=True, text=True, check=False).stdout
        process.kill()
    assert job_frame(stacks) in ("read() at loader.py:4", "read() at loader.py:3")  # it may still print


LOOP = TrainingLoop("/home/ann/job/train.py", "<module>", 9, 11)
PLACES = {  # a stack, the loops, and True if the main thread is outside of them (None: unknown)
    "in the loop": (LOADING, [LOOP], False),
    "in one of two": (LOADING, [LOOP._replace(last_line=10), LOOP], False),
    "behind the loop": (LOADING, [LOOP._replace(last_line=10)], True),
    "in another function": (LOADING, [LOOP._replace(function="main")], True),
    "in another file": (LOADING, [LOOP._replace(path="/home/ann/train.py")], True),
    "as faulthandler writes it": (SAVING, [LOOP._replace(last_line=120)], False),
    "as faulthandler writes it, behind": (SAVING, [LOOP], True),
    "another thread is in the loop": (LOADING, [LOOP._replace(path="/home/ann/other.py", function="feed")], True),
    "no loop is known": (LOADING, [], None),
    "the stack is cut off": (LOADING.replace("    <module> (/home/ann/job/train.py:11)\n", ""), [LOOP], None),
    "there is no stack": ("", [LOOP], None),
    "python -m": (LOADING + "    _run_module_as_main (<frozen runpy>:198)\n", [LOOP], False),
}


@pytest.mark.parametrize(("stack", "loops", "outside"), PLACES.values(), ids=PLACES)
def test_main_thread_is_in_a_loop_or_outside_of_all(stack, loops, outside):
    assert is_outside(loops, stack) is outside
