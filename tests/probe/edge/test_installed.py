"""Tests that the installed package works with and without a C compiler: as a wheel, and with `make demo`.

They take minutes.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import REPOSITORY
from tests.probe.edge import building

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(600)]  # packages are installed anew
UNUSED_URL = "http://127.0.0.1:1"  # port of tcpmux, which no machine serves
WITHOUT_COMPILER = {"CC": "/nonexistent/gcc"}
needs_compiler = pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler")


@pytest.fixture
def checkout(tmp_path) -> Path:
    """Return a copy of the checkout without what is built or installed there."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        target = tmp_path / "checkout" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, target)
    return tmp_path / "checkout"


def run(*command, cwd, **env) -> str:
    """Run a command and return its output, stderr included; it must succeed."""
    outer = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=outer | env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("env", "result"),
    [
        pytest.param({}, "ranks run its C edge", marks=needs_compiler),
        (WITHOUT_COMPILER, "ranks run its Python edge, because this package has no C edge for this Python"),
    ],
    ids=["with compiler", "without compiler"],
)
def test_wheel_works_in_an_environment_outside_the_checkout(checkout, tmp_path, env, result):
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path / "wheels", checkout, cwd=tmp_path, **env)
    (wheel,) = (tmp_path / "wheels").iterdir()
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    run(tmp_path / "venv/bin/pip", "--quiet", "--disable-pip-version-check", "install", wheel, cwd=tmp_path)
    shutil.rmtree(checkout)
    zmon = tmp_path / "venv/bin/zmon"
    assert run(zmon, "--version", cwd=tmp_path).startswith("zmon")
    daemons = ("--agent", UNUSED_URL, "--hub", UNUSED_URL, "--prometheus", UNUSED_URL)
    answer = subprocess.run(
        [zmon, "doctor", "--json", "--box-dir", tmp_path / "boxes", *daemons], cwd=tmp_path, stdout=subprocess.PIPE
    )
    assert {check["name"]: check["found"] for check in json.loads(answer.stdout)["checks"]}["probe"] == result


def test_demo_works_without_a_compiler(checkout, tmp_path):
    """The demo exits with 0 only if every part was healthy."""
    output = run("make", "demo", "DURATION=30", cwd=checkout, ZMON_DATA_DIR=str(tmp_path / "data"), **WITHOUT_COMPILER)
    assert "setup: the C edge of the probe was not built" in output
    assert not list(checkout.glob("zmon/probe/**/*.so"))
