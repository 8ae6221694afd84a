"""Tests of the units: systemd accepts them, and rates what they may do as little."""

import re
import subprocess

import pytest

from tests.hostile.test_capabilities import SETS
from tests.places import REPOSITORY

UNITS = REPOSITORY / "deploy/systemd"
MOST = {"zmon-agent.service": 3.5, "zmon-hub.service": 2.0}  # of ten points of `systemd-analyze security`


def analyze(*arguments):
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(params=MOST)
def unit(request, tmp_path):
    """A copy of a unit whose program exists."""
    text = (UNITS / request.param).read_text()
    program = tmp_path / "zmon"
    program.symlink_to("/bin/true")
    (tmp_path / request.param).write_text(text.replace("/opt/zmon/bin/zmon", str(program)))
    (tmp_path / "zmon-agent.socket").write_text((UNITS / "zmon-agent.socket").read_text())
    return tmp_path / request.param


def test_systemd_finds_nothing_wrong_with_the_unit(unit):
    assert analyze("verify", "--man=no", str(unit)) == (0, "")


def test_unit_may_do_little(unit):
    _, text = analyze("security", "--offline=true", str(unit))
    exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", text)[1])
    assert exposure <= MOST[unit.name], text


def test_agent_has_the_capabilities_of_the_table_and_the_hub_none():
    text = (UNITS / "zmon-agent.service").read_text()
    wanted = " ".join(f"CAP_{name.upper()}" for name in SETS[2])
    for setting in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert f"{setting}={wanted}\n" in text
    assert "\nCapabilityBoundingSet=\n" in (UNITS / "zmon-hub.service").read_text()


@pytest.mark.parametrize(
    ("program", "name"), [("systemd-sysusers", "sysusers.conf"), ("systemd-tmpfiles", "tmpfiles.conf")]
)
def test_user_and_directory_are_made_in_an_empty_root(tmp_path, program, name):
    (tmp_path / "etc").mkdir()
    create = ["--create"] if program == "systemd-tmpfiles" else []
    command = [program, f"--root={tmp_path}", *create, str(UNITS / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    if program == "systemd-sysusers":
        assert "zmon:" in (tmp_path / "etc/passwd").read_text()
    else:
        assert (tmp_path / "run/zmon").stat().st_mode & 0o7777 == 0o1777
