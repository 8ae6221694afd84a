"""Tests of `zmon run`: the command does the same as without it, and its own failures are a single line."""

import ast
import json
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.places import REPOSITORY
from tests.probe.run_job import RANK, python
from zmon.errors import UsageError
from zmon.probe.autoload.sitecustomize import AUTOLOAD, RUN_PID
from zmon.probe.run import environment, path_without


def assert_single_line(stderr, *parts):
    """Check that stderr is one line of zmon with all these parts."""
    lines = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].startswith("zmon: ")
    for part in parts:
        assert part in lines[0]


class Run(NamedTuple):
    """A command, and what it does with and without `zmon run`."""

    command: list[str]
    output: bytes = b""  # the beginning of its stdout
    code: int = 0
    watched: int = 0  # number of processes that are watched
    file: tuple[str, str] | None = None  # name and content of a file of the job


def site(text):
    """Return the name and content of a sitecustomize of the job."""
    return "packages/sitecustomize.py", text


EXITS = "import sys, torch; print('out'); print('err', file=sys.stderr); sys.exit({})"
SCRIPT = ("script.py", "import sys, torch; print(sys.argv[1:], sys.path[0])")
BOTH_WAYS = {
    **{f"exit code {code}": Run(python(EXITS.format(code)), b"out\n", code=code, watched=1) for code in (0, 3, 255)},
    "killed by a signal": Run(python("import os, torch; os.kill(os.getpid(), 9)"), code=-9, watched=1),
    "stdin": Run(["cat"], b"typed\n"),
    # Python ignores SIGPIPE; with that, `yes | head` in the command would report a broken pipe.
    "ignored signals": Run(["grep", "SigIgn", "/proc/self/status"], b"SigIgn"),
    "pipe that breaks": Run(["bash", "-c", "yes | head -1"], b"y\n"),
    "no import of torch, no module of zmon": Run(
        python("import sys; print(sorted(set(sys.modules) - {'sitecustomize'}))"), b"["
    ),
    "script": Run([sys.executable, "script.py", "x"], b"['x']", watched=1, file=SCRIPT),
    "module": Run([sys.executable, "-m", "script", "x"], b"['x']", watched=1, file=SCRIPT),
    "options of Python": Run([sys.executable, "-u", "-X", "dev", "script.py"], b"[]", watched=1, file=SCRIPT),
    "isolated Python runs unwatched": Run([sys.executable, "-I", "-c", "print('works')"], b"works\n"),
    "sitecustomize of the job runs and can be imported": Run(
        python("import sitecustomize, torch; print(sitecustomize.mark, sitecustomize.__file__)"),
        b"own sitecustomize\n1 ", watched=1, file=site("print('own', __name__)\nmark = 1\n"),
    ),
    "sitecustomize of the job fails": Run(python("print('runs')"), b"runs\n", file=site("1 / 0")),
    "sitecustomize of the job cannot import": Run(python("print('runs')"), b"runs\n", file=site("import nowhere")),
    "sitecustomize of the job imports torch": Run(python("pass"), watched=1, file=site("import torch")),
    "find_spec of torch does not import it": Run(
        python("import importlib.util; print(importlib.util.find_spec('torch').origin)"), b"/"
    ),
}  # fmt: skip


@pytest.mark.parametrize("run", BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_command_does_the_same_as_without_zmon(job, run):
    if run.file:
        job.write(job.root / run.file[0], run.file[1])
    done = job.run_both_ways(*run.command)
    assert (done.returncode, done.stdout[: len(run.output)]) == (run.code, run.output)
    assert len(job.watched) == run.watched


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 7), (signal.SIGINT, 8)])
def test_signal_reaches_the_command(job, number, code):
    script = """
        import signal, sys, time, torch
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        signal.signal(signal.SIGINT, lambda *_: sys.exit(8))
        print("ready", flush=True)
        time.sleep(60)
    """
    command = [*job.prefix(), *python(script)]
    with subprocess.Popen(command, env=job.env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            assert process.wait(20) == code
        finally:
            process.kill()


def test_arguments_reach_the_command_unchanged(job):
    words = ["a b", "--", "--job-id", "-x", "", "*", "é", "--label=1"]
    done = job.run_both_ways(*python("import json, sys; print(json.dumps(sys.argv[1:]))"), *words)
    assert json.loads(done.stdout) == words


def test_command_has_no_new_variables_except_those_of_zmon(job):
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": "a::b", "HOME": "/"}
    done = subprocess.run([*job.prefix(), "env"], env=env, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert variables.pop(RUN_PID)
    assert variables == {**env, "PYTHONPATH": f"{job.zmon / 'probe/autoload'}:a::b"}


@pytest.mark.parametrize("path", [None, "", "one", "one:two", "one::two:"])
def test_rank_has_the_same_environment_and_path_as_without_zmon(job, path):
    script = python(
        "import json, os, sys, torch; print(json.dumps([dict(os.environ), sys.path, sys.flags.ignore_environment]))"
    )
    job.write(job.root / "torch.py", "__version__ = '2.13.0'")
    del job.env["PYTHONPATH"]  # the parameter sets it
    env = RANK if path is None else {**RANK, "PYTHONPATH": path}
    watched, bare = (json.loads(run(*script, **env).stdout) for run in (job.run, job.run_without_zmon))
    if path == "":
        del bare[0]["PYTHONPATH"]  # Python treats an empty PYTHONPATH as unset
    assert watched == bare


def test_environment_without_torch_is_reported_once_and_the_command_runs(job):
    venv.create(job.root / "venv", symlinks=True)
    (job.packages / "torch.py").unlink()
    child = "import subprocess, sys\ntry:\n    import torch\nexcept ImportError: print('none')\n"
    parent = child + "subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)\nsys.exit(5)"
    done = job.run(job.root / "venv/bin/python", "-c", parent, child)
    assert (done.returncode, done.stdout.split()) == (5, ["none", "none"])
    assert_single_line(done.stderr, "venv/bin/python", "no torch")


OLD_TORCH = ("packages/torch.py", '__version__ = "2.13.0+cpu"', '__version__ = "2.8.1"', ("torch 2.8.1", "2.9"))
NEWER_PYTHON_NEEDED = (
    "beside/zmon/probe/autoload/sitecustomize.py", "OLDEST_PYTHON = (3, 11)", "OLDEST_PYTHON = (9, 0)",
    ("too old", "3.11"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "parts"), [OLD_TORCH, NEWER_PYTHON_NEEDED], ids=["torch", "Python"])
def test_torch_or_python_that_is_too_old_is_reported_once(job, name, old, new, parts):
    file = job.root / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    done = job.run(*python("import subprocess, sys, torch; subprocess.run([sys.executable, '-c', 'import torch'])"))
    assert (done.returncode, job.watched) == (0, [])
    assert_single_line(done.stderr, *parts)


def test_python_3_6_can_parse_sitecustomize():
    assert ast.parse((Path(AUTOLOAD) / "sitecustomize.py").read_text(), feature_version=(3, 6)).body


@pytest.mark.parametrize("hooks", ["def watch(): 1 / 0", "def watch(:", "", "import nowhere"])
def test_failing_hooks_print_a_single_line_and_the_job_continues(job, hooks):
    job.write_hooks(hooks)
    done = job.run(*python("import torch; print(torch.__version__)"))
    assert (done.returncode, done.stdout) == (0, "2.13.0+cpu\n")
    assert_single_line(done.stderr, "not watched")


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_closed_or_full_stderr_does_not_harm_the_job(job, stderr):
    job.write_hooks("def watch(): 1 / 0")
    job.write(job.root / "script.py", "import torch; print('runs')")
    done = job.run("bash", "-c", f"{sys.executable} script.py {stderr}")
    assert (done.returncode, done.stdout) == (0, "runs\n")


ZMON_RUN = [sys.executable, "-m", "zmon", "run"]
INSTALLED_ZMON_RUN = [Path(sys.executable).with_name("zmon"), "run", "--"]  # it does not import from the job's folder


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        ([], 2, ["CMD", "zmon run --help"]),
        (["--"], 2, ["CMD"]),
        (["--nonsense", "--", "true"], 2, ["--nonsense"]),
        (["--job-id", "a/b", "--", "true"], 2, ["'a/b'"]),
        (["--label", "owner", "--", "true"], 2, ["'owner'", "KEY=VALUE"]),
        (["--", "no-such-command"], 127, ["no-such-command", "no such file"]),
        (["--", "python train.py"], 127, ["remove the quotes"]),
        (["--", "SEED=1", "python"], 127, ["env NAME=VALUE"]),
        (["--", "/"], 126, ["'/'", "permission denied"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_command_that_cannot_run_prints_a_single_line(job, arguments, code, parts):
    done = job.run(*arguments, prefix=ZMON_RUN)
    assert (done.returncode, done.stdout) == (code, "")
    assert_single_line(done.stderr, *parts)


@pytest.mark.parametrize("name", ["click", "yaml", "msgspec", "aiohttp", "rich"])
def test_zmon_does_not_import_modules_from_the_path_of_the_job(job, name):
    job.write(job.packages / f"{name}.py", "raise RuntimeError('the job has its own')")
    done = job.run(*python("print('runs')"), prefix=INSTALLED_ZMON_RUN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "runs\n", "")


@pytest.mark.parametrize(("env", "lines"), [({}, []), ({"LC_CTYPE": "C"}, ["LC_CTYPE=C"])])
def test_command_does_not_inherit_the_variable_that_python_added(job, env, lines):
    """Python adds LC_CTYPE to its environment in the C locale (PEP 538)."""
    job.env.pop("LC_CTYPE", None)
    done = job.run("env", prefix=INSTALLED_ZMON_RUN, LC_ALL="", LANG="C", **env)
    assert [line for line in done.stdout.splitlines() if line.startswith("LC_CTYPE")] == lines


@pytest.mark.parametrize("dashes", [["--"], []])
def test_job_id_and_labels_reach_the_ranks(job, dashes):
    options = ["--job-id", "dlrm-17", "--label", "owner=ann", "--label", "model=a=b", *dashes]
    script = python("import os, sys; print(os.environ['ZMON_JOB_ID'], os.environ['ZMON_LABELS'], sys.argv[1:])")
    done = job.run(*options, *script, "--label", "x", prefix=ZMON_RUN, ZMON_LABELS="queue=a")
    assert done.stdout == "dlrm-17 queue=a,owner=ann,model=a=b ['--label', 'x']\n", done.stderr


def test_nested_run_does_not_change_the_environment_again():
    once = environment({"PYTHONPATH": "a"})
    assert once["PYTHONPATH"] == f"{AUTOLOAD}:a"
    assert environment(once) == once


def test_id_of_a_run_is_not_its_pid_alone():
    """Containers with the network of the host share the names of sockets, and may have the same pids."""
    assert environment({})[RUN_PID] != environment({})[RUN_PID]


@pytest.mark.parametrize("label", ["owner", "a=1,b=2", "=ann", " =ann"])
def test_invalid_label_is_refused(label):
    with pytest.raises(UsageError, match="is not valid"):
        environment({}, labels=[label])


@pytest.mark.parametrize(
    ("path", "result"),
    [("/uvx/bin:/job/bin:/usr/bin", "/job/bin:/usr/bin"), ("/job/bin", "/job/bin"), ("/uvx/bin", "/uvx/bin")],
)
def test_command_is_not_looked_up_in_the_environment_that_was_made_for_zmon(path, result):
    assert path_without(path, "/uvx/bin") == result
