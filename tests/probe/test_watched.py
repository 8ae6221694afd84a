"""Tests of the import hook of `zmon run`, which watches processes that import torch and leaves the import as it is."""

import sys
import textwrap
from pathlib import Path

import pytest

from tests.foreign_environment import assert_ranks_are_watched, make_environment
from tests.probe.run_job import RANK, python


def test_module_and_loader_of_torch_are_unchanged(job):
    (job.packages / "torch.py").unlink()
    job.write(job.packages / "torch/__init__.py", "__version__ = '2.13.0'\nfrom torch import part\n")
    job.write(job.packages / "torch/part.py", "")
    done = job.run_both_ways(*python("""
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


def test_broken_torch_fails_as_without_zmon_and_a_second_torch_is_watched(job):
    job.write(job.packages / "torch.py", "raise ImportError('no libcuda', name='libcuda')")
    job.write(job.root / "good/torch.py", "__version__ = '2.13.0'")
    done = job.run_both_ways(*python("""
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


SEARCHES = """
    self.searching = True
    spec = importlib.util.find_spec(name)
    self.searching = False
    return spec
"""
# Some tracing libraries use such a finder to wait for the import of a module, as zmon does.
FINDER = """
import importlib.util, sys

class Finder:
    searching = False

    def find_spec(self, name, path=None, target=None):
        if name == "torch" and not self.searching:
            {action}

sys.meta_path.insert(0, Finder())
sys.meta_path.append(Finder())
"""
IMPORT = """
    try:
        import torch
        print(torch.__version__)
    except KeyError as error:
        print("as ever", error)
"""


@pytest.mark.parametrize(
    ("action", "output", "watched"),
    [(SEARCHES, b"2.13.0+cpu\n", 1), ("raise KeyError(name)", b"as ever 'torch'\n", 0)],
    ids=["searches all finders", "fails"],
)
def test_finder_of_the_job_works_as_without_zmon(job, action, output, watched):
    indented = textwrap.indent(textwrap.dedent(action), " " * 12).strip()
    job.write(job.packages / "sitecustomize.py", FINDER.format(action=indented))
    assert job.run_both_ways(*python(IMPORT)).stdout == output
    assert len(job.watched) == watched


def test_children_are_watched_unless_their_parent_is_a_rank(job):
    child = "import subprocess, sys, torch; subprocess.run([sys.executable, '-c', 'import torch'], check=True)"
    assert job.run(*python(child)).returncode == 0
    assert len(job.watched) == 2
    assert job.run(*python(child), **RANK).returncode == 0
    assert len(job.watched) == 2 + 1  # the rank, without its child


@pytest.mark.parametrize(
    "start", ["subprocess.run([sys.executable, 'train.py'])", "os.execv(sys.executable, [sys.executable, 'train.py'])"]
)
def test_trainer_that_a_wrapper_starts_as_a_rank_is_watched(job, start):
    job.write(job.root / "train.py", "import torch")
    assert job.run(*python(f"import os, subprocess, sys; {start}"), **RANK).returncode == 0
    assert len(job.watched) == 1


def test_child_of_a_rank_does_not_attach_at_once(job):
    job.write_hooks("""
        from zmon.probe.autoload.sitecustomize import attaches_at_once
        def watch():
            print(attaches_at_once(), flush=True)
    """)
    child = "subprocess.run([sys.executable, '-c', 'import torch'])"
    done = job.run(*python(f"import subprocess, sys; {child}; import torch"), **RANK)
    assert done.stdout == "False\nTrue\n"


def test_rank_below_a_watched_process_does_not_attach_at_once(job):
    """It attaches when it joins a process group."""
    job.write_hooks("""
        from zmon.probe.autoload.sitecustomize import attaches_at_once, is_below_rank, mark_environment
        def watch():
            print(attaches_at_once(), is_below_rank(), flush=True)
            mark_environment()
    """)
    child = f"subprocess.run([sys.executable, '-c', 'import torch'], env={{**os.environ, **{RANK}}})"
    assert job.run(*python(f"import os, subprocess, sys, torch; {child}")).stdout == "False False\nFalse True\n"
    assert job.run(*python(f"import os, subprocess, sys; {child}")).stdout == "True False\n"


def test_imported_zmon_is_the_package_of_zmon_run(job):
    job.write(job.packages / "zmon/__init__.py", "print('another')")
    done = job.run(*python("import zmon; print(zmon.__file__)"))
    assert done.stdout == f"{job.zmon / '__init__.py'}\n"


@pytest.mark.parametrize(("value", "watched"), [("1", 0), ("yes", 0), ("0", 1), ("", 1)])
def test_zmon_disabled_leaves_the_process_unwatched(job, value, watched):
    job.run_both_ways(*python("import torch"), ZMON_DISABLED=value)
    assert len(job.watched) == watched


RANKS = """
    import os, sys, time
    import torch, torch.distributed as dist
    assert "autoload" not in os.environ["PYTHONPATH"]
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        open("started-" + os.environ["RANK"], "w").close()
        while not (os.path.exists("started-0") and os.path.exists("started-1")):
            time.sleep(0.01)  # torchrun kills the other rank as soon as one has ended
        sys.exit(4)
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    os.write(1, f"rank {dist.get_rank()} of {int(total)}\\n".encode())
    dist.destroy_process_group()
"""


@pytest.fixture
def real_torch(job):
    """Return a folder whose commands import the installed torch, with the fake hooks."""
    (job.packages / "torch.py").unlink()
    job.env["OMP_NUM_THREADS"] = "1"
    return job


@pytest.mark.slow  # it starts torchrun, and its ranks twice
@pytest.mark.e2e
def test_ranks_of_every_restart_of_torchrun_are_watched(real_torch):
    script = real_torch.write(real_torch.root / "train.py", RANKS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    done = real_torch.run(*torchrun, script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    assert "zmon:" not in done.stderr
    assert len(set(real_torch.watched)) == 1 + 2 * 2  # torchrun, which imports torch too, and two starts of two ranks


@pytest.mark.e2e
def test_environment_is_restored_if_no_box_can_be_created(real_torch):
    script = """
        import os, torch
        x = torch.ones(1, requires_grad=True)
        (x * 2).sum().backward()
        print("autoload" in os.environ.get("PYTHONPATH", ""), "ZMON_RUN_PID" in os.environ)
    """
    real = [Path(sys.executable).with_name("zmon"), "run", "--job-id", "j", "--"]
    done = real_torch.run(*python(script), prefix=real, ZMON_BOX_DIR="/proc/nowhere")
    assert (done.returncode, done.stdout) == (0, "False False\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("zmon: cannot use /proc/nowhere for black boxes: it is on proc")
    assert "may write" in line


@pytest.mark.e2e
def test_ranks_in_an_environment_without_zmons_dependencies_are_watched(tmp_path):
    """The environment of the job has torch, and none of what zmon depends on."""
    interpreter = make_environment(tmp_path / "foreign")
    assert_ranks_are_watched([sys.executable, "-m", "zmon", "run"], interpreter, tmp_path)
