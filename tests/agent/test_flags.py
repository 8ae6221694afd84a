"""Tests of `zmon agent --without`. An unknown source name is refused, from the command line and the environment."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("flags", "env"), [(("--without", "gpu,nics"), {}), ((), {"ZMON_WITHOUT": "nics"})])
def test_unknown_source_name_is_refused_by_the_command_line(tmp_path, flags, env):
    command = (sys.executable, "-m", "zmon", "agent", "--box-dir", str(tmp_path), "--data-dir", str(tmp_path), *flags)
    result = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("zmon: no source is called nics: the sources are ")
    assert all(name in line for name in ("gpu", "nic", "rdma", "tcp", "host", "kernel", "steps"))
