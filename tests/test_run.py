"""`zmon run`: the command is left alone in every respect, and what imports torch in it is watched."""

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from zmon.autoload import AUTOLOAD, RUN_PID
from zmon.errors import UsageError
from zmon.run import environment

PROJECT = Path(__file__).parents[1]
RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
BECOME = "import sys; from zmon.run import *; become(sys.argv[2:], environment(inherited(), autoload=sys.argv[1]))"
WATCH = 'import os\ndef watch():\n    with open(os.environ["WATCHED"], "a") as log: print(os.getpid(), file=log)\n'


@dataclass
class Job:
    """Runs commands with and without `zmon run`; torch and `zmon.hooks.watch` are stand-ins unless told otherwise."""

    root: Path

    def __post_init__(self) -> None:
        self.zmon, self.path, self.watched_log = self.root / "beside/zmon", self.root / "path", self.root / "watched"
        shutil.copytree(AUTOLOAD, self.zmon / "autoload", ignore=shutil.ignore_patterns("__pycache__"))
        self.write(self.zmon / "__init__.py", "")
        self.write(self.zmon / "hooks/__init__.py", WATCH)
        self.write(self.path / "torch.py", '__version__ = "2.13.0+cpu"\n')
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ZMON_") and k not in RANK}
        self.env = {**clean, "PYTHONPATH": str(self.path), "WATCHED": str(self.watched_log)}

    def write(self, file, text):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return file

    @property
    def watched(self):
        """The processes in which zmon was asked to watch."""
        return self.watched_log.read_text().split() if self.watched_log.exists() else []

    def prefix(self):
        return [sys.executable, "-I", "-c", BECOME, str(self.zmon / "autoload")]

    def run(self, *command, prefix=None, text=True, **env):
        """Under `zmon run`."""
        prefix = self.prefix() if prefix is None else prefix
        return subprocess.run(
            [*prefix, *map(str, command)], env={**self.env, **env}, cwd=self.root, text=text,
            capture_output=True, timeout=120, check=False, input="typed\n" if text else b"typed\n",
        )  # fmt: skip

    def bare(self, *command, **env):
        """Without it."""
        return self.run(*command, prefix=[], **env)

    def both(self, *command, **env):
        """Asserts that exit code and output are the same; returns them."""
        watched, bare = self.run(*command, text=False, **env), self.bare(*command, text=False, **env)
        assert (watched.returncode, watched.stdout, watched.stderr) == (bare.returncode, bare.stdout, bare.stderr)
        return watched


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def python(script):
    return [sys.executable, "-c", textwrap.dedent(script)]


def assert_one_line(err, *parts):
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("zmon: ")
    for part in parts:
        assert part in lines[0]


# -- the command is left alone -----------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit_code_and_output_are_the_commands(job, code):
    script = f"import sys, torch; print('out'); print('err', file=sys.stderr); sys.exit({code})"
    assert job.both(*python(script)).returncode == code
    assert len(job.watched) == 1


def test_death_by_signal_is_the_commands(job):
    assert job.both(*python("import os, torch; os.kill(os.getpid(), 9)")).returncode == -9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_reaches_the_command(job, number):
    script = """
        import signal, sys, time, torch
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        signal.signal(signal.SIGINT, lambda *_: sys.exit(8))
        print("ready", flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen([*job.prefix(), *python(script)], env=job.env, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.wait(20) == {signal.SIGTERM: 7, signal.SIGINT: 8}[number]


def test_stdin_is_the_commands(job):
    assert job.both("cat").stdout == b"typed\n"


def test_arguments_arrive_as_they_are(job):
    words = ["a b", "--", "--job-id", "-x", "", "*", "é", "--label=1"]
    done = job.both(*python("import json, sys; print(json.dumps(sys.argv[1:]))"), *words)
    assert json.loads(done.stdout) == words


def test_ignored_signals_are_not_inherited(job):
    """Python ignores SIGPIPE: `yes | head` in the command would complain of a broken pipe."""
    assert job.both("grep", "SigIgn", "/proc/self/status").returncode == 0
    assert job.both("bash", "-c", "yes | head -1").stderr == b""


def test_command_sees_nothing_new_in_its_environment_but_zmons_variables(job):
    """LC_CTYPE among it, which Python puts into its own environment where the locale is C."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": "a::b", "HOME": "/"}
    seen = subprocess.run([*job.prefix(), "env"], env=env, cwd=PROJECT, capture_output=True, text=True, check=True)
    given = dict(line.split("=", 1) for line in seen.stdout.splitlines())
    assert given.pop(RUN_PID)
    assert given == {**env, "PYTHONPATH": f"{job.zmon / 'autoload'}:a::b"}


@pytest.mark.parametrize("path", [None, "", "one", "one:two", "one::two:"])
def test_rank_sees_the_environment_and_the_path_that_it_would_have_seen(job, path):
    script = python(
        "import json, os, sys; print(json.dumps([dict(os.environ), sys.path, sys.flags.ignore_environment]))"
    )
    del job.env["PYTHONPATH"]
    env = RANK if path is None else {**RANK, "PYTHONPATH": path}
    seen, bare = (json.loads(run(*script, **env).stdout) for run in (job.run, job.bare))
    if path == "":
        del bare[0]["PYTHONPATH"]  # an empty one is none, to Python too
    assert seen == bare


def test_python_that_never_imports_torch_imports_nothing_more(job):
    assert job.both(*python("import sys; print(sorted(set(sys.modules) - {'sitecustomize'}))")).returncode == 0
    assert job.watched == []


@pytest.mark.parametrize("arguments", [["script.py", "x"], ["-m", "script", "x"], ["-u", "-X", "dev", "script.py"]])
def test_every_way_to_start_python_is_watched(job, arguments):
    job.write(job.root / "script.py", "import sys, torch; print(sys.argv[1:], sys.path[0])")
    assert job.both(sys.executable, *arguments).returncode == 0
    assert len(job.watched) == 1


def test_isolated_python_runs_unwatched(job):
    assert job.both(sys.executable, "-I", "-c", "print('works')").stdout == b"works\n"
    assert job.watched == []


def test_jobs_own_sitecustomize_runs_and_is_the_one_that_is_imported(job):
    job.write(job.path / "sitecustomize.py", "print('own', __name__)\nmark = 1\n")
    done = job.both(*python("import sitecustomize, torch; print(sitecustomize.mark, sitecustomize.__file__)"))
    assert done.stdout.startswith(b"own sitecustomize\n1 ")
    assert len(job.watched) == 1


@pytest.mark.parametrize("failure", ["1 / 0", "import nowhere"])
def test_jobs_own_sitecustomize_fails_as_it_would(job, failure):
    job.write(job.path / "sitecustomize.py", failure)
    job.both(*python("print('runs')"))


def test_torch_that_its_sitecustomize_imports_is_watched(job):
    job.write(job.path / "sitecustomize.py", "import torch")
    assert job.both(*python("pass")).returncode == 0
    assert len(job.watched) == 1


# -- who is watched ----------------------------------------------------------------------------------------


def test_torch_is_as_it_was(job):
    (job.path / "torch.py").unlink()
    job.write(job.path / "torch/__init__.py", "__version__ = '2.13.0'\nfrom torch import part\n")
    job.write(job.path / "torch/part.py", "")
    done = job.both(*python("""
        import importlib.resources, importlib.util, inspect, sys
        assert importlib.util.find_spec("torch") and "torch" not in sys.modules
        import torch, torch.part
        loader = torch.__spec__.loader
        print(inspect.getsource(torch), importlib.resources.files("torch"), torch.__loader__ is loader)
        print(type(loader), vars(loader), loader.is_package("torch"), loader.get_source("torch"), torch.part.__file__)
        print(importlib.reload(torch).part is torch.part)
    """))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(job.watched) == 1


def test_torch_that_is_only_looked_for_is_not_watched(job):
    job.both(*python("import importlib.util; print(importlib.util.find_spec('torch').origin)"))
    assert job.watched == []


def test_torch_that_turns_up_later_is_watched_and_a_broken_one_is_the_jobs_affair(job):
    job.write(job.path / "torch.py", "raise ImportError('no libcuda', name='libcuda')")
    job.write(job.root / "good/torch.py", "__version__ = '2.13.0'")
    done = job.both(*python("""
        import sys
        try:
            import torch
        except ImportError as error:
            print(error, error.name, "torch" in sys.modules)
        sys.path.insert(0, "good")
        import torch
    """))  # fmt: skip
    assert done.stdout == b"no libcuda libcuda False\n"
    assert len(job.watched) == 1


def test_finder_of_the_job_that_asks_all_finders_again_is_no_obstacle(job):
    """So do tracing libraries that wait for a module as zmon does."""
    job.write(job.path / "sitecustomize.py", """
        import importlib.util, sys

        class Finder:
            asks = False

            def find_spec(self, name, path=None, target=None):
                if name == "torch" and not self.asks:
                    self.asks = True
                    spec = importlib.util.find_spec(name)
                    self.asks = False
                    return spec

        sys.meta_path.insert(0, Finder())
        sys.meta_path.append(Finder())
    """)  # fmt: skip
    assert job.both(*python("import torch; print(torch.__version__)")).returncode == 0
    assert len(job.watched) == 1


def test_finder_of_the_job_that_fails_is_the_jobs_affair(job):
    job.write(job.path / "sitecustomize.py", """
        import sys

        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "torch":
                    raise KeyError(name)

        sys.meta_path.insert(0, Finder())
    """)  # fmt: skip
    done = job.both(*python("""
        try:
            import torch
        except KeyError as error:
            print("as ever", error)
    """))  # fmt: skip
    assert done.stdout == b"as ever 'torch'\n"


def test_children_of_a_launcher_are_watched_and_those_of_a_rank_are_not(job):
    child = "import subprocess, sys, torch; subprocess.run([sys.executable, '-c', 'import torch'], check=True)"
    assert job.run(*python(child)).returncode == 0
    assert len(job.watched) == 2
    assert job.run(*python(child), **RANK).returncode == 0
    assert len(job.watched) == 3


def test_zmon_is_the_one_of_zmon_run(job):
    job.write(job.path / "zmon/__init__.py", "print('another')")
    done = job.run(*python("import zmon; print(zmon.__file__)"))
    assert done.stdout == f"{job.zmon / '__init__.py'}\n"


@pytest.mark.parametrize(("value", "watched"), [("1", 0), ("yes", 0), ("0", 1), ("", 1)])
def test_zmon_disabled_switches_it_off(job, value, watched):
    job.both(*python("import torch"), ZMON_DISABLED=value)
    assert len(job.watched) == watched


# -- what it says ------------------------------------------------------------------------------------------


def test_python_without_torch_is_said_once_and_runs(job):
    venv.create(job.root / "venv", symlinks=True)
    (job.path / "torch.py").unlink()
    script = "import subprocess, sys\ntry:\n    import torch\nexcept ImportError: print('none')\n"
    child = script + "subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)\nsys.exit(5)"
    done = job.run(job.root / "venv/bin/python", "-c", child, script)
    assert (done.returncode, done.stdout.split()) == (5, ["none", "none"])
    assert_one_line(done.stderr, "venv/bin/python", "no torch")


def test_torch_that_is_too_old_is_said_once(job):
    job.write(job.path / "torch.py", '__version__ = "2.8.1"')
    done = job.run(*python("import subprocess, sys, torch; subprocess.run([sys.executable, '-c', 'import torch'])"))
    assert done.returncode == 0
    assert_one_line(done.stderr, "torch 2.8.1", "2.9")
    assert job.watched == []


def test_python_that_is_too_old_is_said_once(job):
    file = job.zmon / "autoload/sitecustomize.py"
    file.write_text(file.read_text().replace("OLDEST_PYTHON = (3, 11)", "OLDEST_PYTHON = (9, 0)"))
    done = job.run(*python("import torch; print('runs')"))
    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert_one_line(done.stderr, "too old", "3.11")
    assert job.watched == []


def test_python_3_6_can_read_what_runs_at_its_start():
    assert ast.parse((Path(AUTOLOAD) / "sitecustomize.py").read_text(), feature_version=(3, 6)).body


@pytest.mark.parametrize("hooks", ["def watch(): 1 / 0", "def watch(:", "", "import nowhere"])
def test_zmon_that_fails_is_one_line_and_the_job_runs_on(job, hooks):
    job.write(job.zmon / "hooks/__init__.py", hooks)
    done = job.run(*python("import torch; print(torch.__version__)"))
    assert (done.returncode, done.stdout) == (0, "2.13.0+cpu\n")
    assert_one_line(done.stderr, "not watched")


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_stderr_that_is_closed_or_full_is_no_reason_to_fail(job, stderr):
    job.write(job.zmon / "hooks/__init__.py", "def watch(): 1 / 0")
    job.write(job.root / "script.py", "import torch; print('runs')")
    done = job.run("bash", "-c", f"{sys.executable} script.py {stderr}")
    assert (done.returncode, done.stdout) == (0, "runs\n")


# -- the command line --------------------------------------------------------------------------------------

ZMON_RUN = [sys.executable, "-m", "zmon", "run"]


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        ([], 2, ["CMD", "zmon run --help"]),
        (["--"], 2, ["CMD"]),
        (["--nonsense", "--", "true"], 2, ["--nonsense"]),
        (["--job-id", "a/b", "--", "true"], 2, ["'a/b'"]),
        (["--label", "owner", "--", "true"], 2, ["'owner'", "KEY=VALUE"]),
        (["--", "no-such-command"], 127, ["no-such-command", "no such file"]),
        (["--", "python train.py"], 127, ["leave the quotes out"]),
        (["--", "SEED=1", "python"], 127, ["env NAME=VALUE"]),
        (["--", "/"], 126, ["'/'", "permission denied"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_run_is_one_line(job, arguments, code, parts):
    done = job.run(*arguments, prefix=ZMON_RUN)
    assert (done.returncode, done.stdout) == (code, "")
    assert_one_line(done.stderr, *parts)


@pytest.mark.parametrize("name", ["click", "yaml", "msgspec", "aiohttp", "rich"])
def test_what_the_job_has_on_its_path_is_not_what_zmon_imports(job, name):
    job.write(job.path / f"{name}.py", "raise RuntimeError('the job has its own')")
    done = job.run(*python("print('runs')"), prefix=[Path(sys.executable).with_name("zmon"), "run", "--"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "runs\n", "")


@pytest.mark.parametrize(("told", "lines"), [({}, []), ({"LC_CTYPE": "C"}, ["LC_CTYPE=C"])])
def test_command_is_not_given_what_python_added_for_zmon(job, told, lines):
    """PEP 538 puts LC_CTYPE into the environment of a Python under the C locale."""
    job.env.pop("LC_CTYPE", None)
    done = job.run("env", prefix=[Path(sys.executable).with_name("zmon"), "run", "--"], LC_ALL="", LANG="C", **told)
    assert [line for line in done.stdout.splitlines() if line.startswith("LC_CTYPE")] == lines


def test_environment_is_restored_where_no_box_can_be_made(real_torch):
    script = """
        import os, torch
        x = torch.ones(1, requires_grad=True)
        (x * 2).sum().backward()
        print("autoload" in os.environ.get("PYTHONPATH", ""), "ZMON_RUN_PID" in os.environ)
    """
    real = [Path(sys.executable).with_name("zmon"), "run", "--job-id", "j", "--"]
    done = real_torch.run(*python(script), prefix=real, ZMON_BOX_DIR="/proc/nowhere")
    assert (done.returncode, done.stdout) == (0, "False False\n")
    assert_one_line(done.stderr, "cannot make the black box", "may write")


@pytest.mark.parametrize("dashes", [["--"], []])
def test_job_id_and_labels_are_told_to_the_ranks(job, dashes):
    told = ["--job-id", "dlrm-17", "--label", "owner=ann", "--label", "model=a=b", *dashes]
    script = python("import os, sys; print(os.environ['ZMON_JOB_ID'], os.environ['ZMON_LABELS'], sys.argv[1:])")
    done = job.run(*told, *script, "--label", "x", prefix=ZMON_RUN, ZMON_LABELS="queue=a")
    assert done.stdout == "dlrm-17 queue=a,owner=ann,model=a=b ['--label', 'x']\n", done.stderr


def test_run_within_a_run_is_one():
    once = environment({"PYTHONPATH": "a"})
    assert once["PYTHONPATH"] == f"{AUTOLOAD}:a"
    assert environment(once) == once


@pytest.mark.parametrize("label", ["owner", "a=1,b=2", "=ann", " =ann"])
def test_label_that_is_none_is_refused(label):
    with pytest.raises(UsageError, match="is no label"):
        environment({}, labels=[label])


# -- real torch --------------------------------------------------------------------------------------------

RANKS = """
    import os, sys
    import torch, torch.distributed as dist
    assert "autoload" not in os.environ["PYTHONPATH"]
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(4)
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    os.write(1, f"rank {dist.get_rank()} of {int(total)}\\n".encode())
    dist.destroy_process_group()
"""


@pytest.fixture
def real_torch(job):
    (job.path / "torch.py").unlink()
    job.env["OMP_NUM_THREADS"] = "1"
    return job


def test_ranks_of_every_restart_of_torchrun_are_watched(real_torch):
    script = real_torch.write(real_torch.root / "train.py", RANKS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    done = real_torch.run(*torchrun, script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    assert "zmon:" not in done.stderr
    assert len(set(real_torch.watched)) == 1 + 2 * 2  # torchrun itself, which turns out to be no rank


def test_processes_that_torch_spawns_are_watched(real_torch):
    script = real_torch.write(real_torch.root / "train.py", """
        import os
        import torch.multiprocessing as mp

        def rank(number):
            os.write(1, f"rank {number}\\n".encode())

        if __name__ == "__main__":
            mp.spawn(rank, nprocs=2)
    """)  # fmt: skip
    done = real_torch.run(sys.executable, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["rank 0", "rank 1"]
    assert len(set(real_torch.watched)) == 3
