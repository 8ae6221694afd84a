"""Tests of `python -m dashboards.rules` and `python -m dashboards.grafana`: files for a site's own intervals."""

import subprocess
import sys

import pytest

from dashboards import grafana
from dashboards.intervals import Intervals
from dashboards.rules import render
from tests.places import REPOSITORY

SITE = Intervals(agents_seconds=30, hub_seconds=30)


def run(module, *options):
    """Run the command; return its exit code and what it printed on stdout and stderr."""
    command = [sys.executable, "-m", f"dashboards.{module}", *map(str, options)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("module", ["rules", "grafana"])
def test_command_writes_the_files_for_the_intervals(tmp_path, module):
    out = tmp_path / "new" / module
    code, printed, errors = run(module, "--agents", "30s", "--hub", "30s", "--out", out)
    assert (code, errors) == (0, "")
    assert printed == f"{out}: files for agents scraped every 30s and hubs scraped every 30s, or more often\n"
    expected = render.rendered(SITE) if module == "rules" else grafana.rendered(SITE)
    assert {file.name: file.read_text(encoding="utf-8") for file in out.iterdir()} == expected


def test_rules_for_shards_are_split_by_their_source(tmp_path):
    code, _, errors = run("rules", "--agents", "30s", "--hub", "30s", "--out", tmp_path, "--sharded")
    assert (code, errors) == (0, "")
    written = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    assert written == render.sharded(SITE)
    assert written.keys() == {"shard.yaml", *render.FILES}


def test_command_for_rules_does_not_need_the_dashboard(tmp_path):
    """A host of Prometheus has zmon without Streamlit."""
    script = (
        "import sys; sys.modules['streamlit'] = None; sys.modules['pandas'] = None; import runpy;"
        f"sys.argv = ['rules', '--agents', '30s', '--hub', '30s', '--out', {str(tmp_path)!r}];"
        "runpy.run_module('dashboards.rules', run_name='__main__')"
    )
    subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, check=True, timeout=60, capture_output=True)
    assert len(list(tmp_path.iterdir())) == len(render.FILES)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"--agents": "30"}, "'30' is not a duration such as 15s or 1m30s"),
        ({"--agents": "2m"}, "2m is not a whole number of seconds from 1s to 60s"),
        ({"--hub": "0s"}, "0s is not a whole number of seconds from 1s to 60s"),
        ({"--hub": "1500ms"}, "1500ms is not a whole number of seconds from 1s to 60s"),
        ({"--hub": None}, "Missing option '--hub'"),
        ({"--out": "{file}/x"}, "Not a directory"),
        ({"--out": "{file}"}, "is a file"),
    ],
)
def test_bad_input_is_one_line_with_the_reason(tmp_path, options, reason):
    file = tmp_path / "file"
    file.write_text("")
    given = {"--agents": "30s", "--hub": "30s", "--out": str(tmp_path / "out")} | options
    words = [word.format(file=file) for name, value in given.items() if value is not None for word in (name, value)]
    code, printed, errors = run("rules", *words)
    assert (code, printed) == (2, "")
    assert errors.count("\n") == 1
    assert errors.startswith("python -m dashboards.rules: ")
    assert reason in errors
