"""Tests of the build of the C module that records senders: without a compiler the package has none, and works."""

import os
import subprocess
import sys

import pytest

from tests.places import REPOSITORY


@pytest.mark.parametrize(("compiler", "modules"), [("gcc", 1), ("/bin/false", 0)])
def test_package_builds_with_and_without_a_compiler(tmp_path, compiler, modules):
    built = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", tmp_path, "--build-temp", tmp_path / "temp"],
        cwd=REPOSITORY,
        env={**os.environ, "CC": compiler},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert built.returncode == 0, built.stderr
    assert len(list(tmp_path.rglob("_signal_sender*.so"))) == modules
    assert ("_signal_sender" in built.stderr) == (modules == 0), "a failed build is one warning"
