"""Tests of `zmon bench-comm`, which times real collectives on ranks that it starts or on the ranks of a job."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from lab.cli.bench_comm import report
from tests.places import REPOSITORY
from tests.ranks import run_ranks
from tests.scaling.test_bandwidth import TWO_HOSTS
from zmon.offline.measured_files import read_links
from zmon.scaling.bandwidth import links

SMALL = ("--largest", "16384")
LAUNCHER = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", "--no-python")


def execute(tmp_path, *words):
    """Run a command in `tmp_path`, where Python and a shell find this checkout and its Python."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHON": sys.executable}
    return subprocess.run(words, env=env, cwd=tmp_path, text=True, capture_output=True, timeout=120, check=False)


def bench_comm(tmp_path, *words):
    return execute(tmp_path, sys.executable, "-m", "zmon", "bench-comm", *words)


@pytest.mark.e2e
def test_bench_comm_times_two_ranks_of_this_node(tmp_path):
    done = bench_comm(tmp_path, *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)["measured"]
    assert (measured["backend"], measured["ranks"], measured["ranks_per_host"]) == ("gloo", 2, 2)
    assert {(t["op"], t["num_bytes"]) for t in measured["timed"]} == {
        (op, size) for op in ("all_to_all", "all_reduce") for size in (1024, 4096, 16384)
    }
    assert all(t["seconds"] > 0 for t in measured["timed"])


@pytest.fixture
def run_in_forks(tmp_path, torch_zygote):
    """Return a function that runs three ranks without a launcher. `host` is a Python expression with `rank`."""

    def run(host):
        script = tmp_path / "rank.py"
        script.write_text(
            "import os\nfrom zmon.cli.main import main\n\nrank = int(os.environ['RANK'])\n"
            f"os.environ['ZMON_HOST'] = f'node-{{{host}}}'\nmain()\n"
        )
        out = str(tmp_path / "links.json")
        return run_ranks(torch_zygote, tmp_path / "logs", 3, str(script), "bench-comm", *SMALL, "--out", out)

    return run


@pytest.fixture
def run_with_torchrun(tmp_path):
    """Return a function that runs three ranks with torchrun. The shell evaluates `host`."""

    def run(host):
        expression = host.replace("//", "/").replace("rank", "RANK")
        rank = f"ZMON_HOST=node-$(({expression})) exec $PYTHON -m zmon bench-comm {' '.join(SMALL)} --out links.json"
        return execute(tmp_path, *LAUNCHER, "bash", "-c", rank)

    return run


@pytest.mark.slow  # two ranks of this node are timed in every run
@pytest.mark.e2e
@pytest.mark.parametrize("start", ["run_in_forks", "run_with_torchrun"])
def test_bench_comm_times_links_within_and_between_unequal_hosts(request, tmp_path, start):
    done = request.getfixturevalue(start)("rank // 2")
    assert done.returncode == 0, done.stderr
    assert "within a host, 2 ranks" in done.stdout
    assert "between hosts, 2 ranks" in done.stdout
    fitted = links(read_links(tmp_path / "links.json"))["all_to_all"]
    assert fitted.ranks_per_host == 2
    assert fitted.host
    assert fitted.net


@pytest.mark.slow  # the test above covers other layouts of ranks in every run
@pytest.mark.e2e
def test_rank_0_alone_on_its_host_writes_links_that_others_measured(tmp_path, run_in_forks):
    done = run_in_forks("(rank + 1) // 2")
    assert done.returncode == 0, done.stderr
    assert links(read_links(tmp_path / "links.json"))["all_reduce"].host


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--ranks", "1"), "--ranks"),
        (("--out", "nowhere/links.json"), "nowhere does not exist"),
        (("--largest", "1"), "--largest"),
    ],
)
def test_misuse_prints_one_line_and_exits_with_2(command, tmp_path, monkeypatch, words, part):
    monkeypatch.chdir(tmp_path)
    code, _, err = command("bench-comm", *words)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert part in err


@pytest.mark.slow  # two ranks of this node are timed in every run
@pytest.mark.e2e
def test_failing_backend_prints_one_line_and_exits_with_1(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch0")
    done = bench_comm(tmp_path, *SMALL)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "the benchmark failed" in done.stderr


def render(measured):
    console = Console(file=StringIO(), width=80)
    console.print(report(measured))
    return console.file.getvalue()


def test_output_has_each_group_and_the_fit_and_unknown_for_a_missing_time():
    text = render(TWO_HOSTS)
    assert "within a host, 4 ranks" in text
    assert "between hosts, 2 ranks" in text
    assert "all_to_all time bus bandwidth all_reduce time bus bandwidth" in " ".join(text.split())
    fit = "within a host bus bandwidth 8.00 GB/s, latency 50 µs; between hosts bus bandwidth 1.20 GB/s, latency 200 µs"
    assert f"all_to_all, fitted: {fit}" in " ".join(text.split())
    incomplete = replace(TWO_HOSTS, timed=[t for t in TWO_HOSTS.timed if (t.op, t.num_bytes) != ("all_reduce", 1024)])
    assert "unknown" in render(incomplete)
