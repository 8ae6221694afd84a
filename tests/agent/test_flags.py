"""Tests of `zmon agent --without`. An unknown source name is refused, from the command line and the environment."""

import pytest


@pytest.mark.parametrize(("flags", "env"), [(("--without", "gpu,nics"), {}), ((), {"ZMON_WITHOUT": "nics"})])
def test_unknown_source_name_is_refused_by_the_command_line(command, monkeypatch, flags, env):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    code, out, err = command("agent", *flags)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("zmon: no source is called nics: the sources are ")
    assert all(name in line for name in ("gpu", "nic", "rdma", "tcp", "host", "kernel", "steps"))
