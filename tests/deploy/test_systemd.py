"""Tests of the units: systemd accepts them and rates their exposure as low, and the tmpfs has room for the boxes."""

import math
import os
import re
import subprocess

import pytest

from tests.hostile.test_capabilities import SETS
from tests.places import REPOSITORY
from zmon.box.versions import CURRENT

UNITS = REPOSITORY / "deploy/systemd"
MAX_EXPOSURE = {"zmon-agent.service": 3.5, "zmon-hub.service": 2.0}  # by `systemd-analyze security`: 0 to 10

AGENT_CAPABILITIES = ("dac_read_search", "sys_ptrace", "syslog")
RANKS, STARTS = 8, 8  # the ranks of a node, and their starts in the 15 minutes that boxes of dead ranks stay
INODES = 4  # of a rank at most: its box, its socket and their folders
PAGE = os.sysconf("SC_PAGE_SIZE")


def mount_options():
    """Return the options of the mount unit; those without a value have None."""
    text = (UNITS / "run-zmon.mount").read_text()
    words = re.search(r"^Options=(.*)$", text, re.MULTILINE)[1].split(",")
    return {name: value or None for name, _, value in (word.partition("=") for word in words)}


def analyze(*arguments):
    """Run systemd-analyze; return its exit code and what it printed."""
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(params=MAX_EXPOSURE)
def unit(request, tmp_path):
    """A copy of a unit whose program exists, beside the units that it needs."""
    text = (UNITS / request.param).read_text()
    program = tmp_path / "zmon"
    program.symlink_to("/bin/true")
    (tmp_path / request.param).write_text(text.replace("/opt/zmon/bin/zmon", str(program)))
    for other in ("zmon-agent.socket", "run-zmon.mount"):
        (tmp_path / other).write_text((UNITS / other).read_text())
    return tmp_path / request.param


def test_systemd_finds_nothing_wrong_with_the_unit(unit):
    assert analyze("verify", "--man=no", str(unit)) == (0, "")


def test_exposure_of_a_unit_is_low(unit):
    _, text = analyze("security", "--offline=true", str(unit))
    exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", text)[1])
    assert exposure <= MAX_EXPOSURE[unit.name], text


def test_agent_has_capabilities_that_were_measured_and_the_hub_has_none():
    assert AGENT_CAPABILITIES in SETS  # of which each was measured
    text = (UNITS / "zmon-agent.service").read_text()
    wanted = " ".join(f"CAP_{name.upper()}" for name in AGENT_CAPABILITIES)
    for setting in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert f"{setting}={wanted}\n" in text
    assert "\nCapabilityBoundingSet=\n" in (UNITS / "zmon-hub.service").read_text()


def test_drop_in_lets_the_agent_act_and_the_units_alone_do_not():
    drop_in = (UNITS / "zmon-agent-actions.conf").read_text()
    assert "Environment=ZMON_ALLOW_ACTIONS=1\n" in drop_in
    for setting in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert f"\n{setting}=CAP_KILL\n" in drop_in
    for name in MAX_EXPOSURE:
        text = (UNITS / name).read_text()
        assert "CAP_KILL" not in text
        assert "ALLOW_ACTIONS" not in text


@pytest.mark.parametrize("unit", ["zmon-agent.service"], indirect=True)
def test_systemd_accepts_the_drop_in_with_the_unit_of_the_agent(unit):
    folder = unit.parent / f"{unit.name}.d"
    folder.mkdir()
    (folder / "actions.conf").write_text((UNITS / "zmon-agent-actions.conf").read_text())
    assert analyze("verify", "--man=no", str(unit)) == (0, "")
    _, text = analyze("security", "--offline=true", str(unit))
    assert "CAP_KILL" in text


def test_sysusers_makes_the_user_in_an_empty_root(tmp_path):
    (tmp_path / "etc").mkdir()
    command = ["systemd-sysusers", f"--root={tmp_path}", str(UNITS / "sysusers.conf")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert "zmon:" in (tmp_path / "etc/passwd").read_text()


def test_systemd_finds_nothing_wrong_with_the_mount():
    assert analyze("verify", "--man=no", str(UNITS / "run-zmon.mount")) == (0, "")


def test_every_user_may_write_the_tmpfs_but_run_no_program_from_it():
    options = mount_options()
    assert options.keys() >= {"noexec", "nosuid", "nodev"}
    assert options["mode"] == "1777"


def test_tmpfs_has_room_for_the_boxes_and_sockets_of_its_ranks():
    options = mount_options()
    box = math.ceil(CURRENT.file_size / PAGE) * PAGE
    assert int(options["size"].removesuffix("M")) * 2**20 >= RANKS * STARTS * box
    assert int(options["nr_inodes"]) >= RANKS * STARTS * INODES
    sizes = f"{RANKS * STARTS} boxes of {CURRENT.file_size / 2**20:.1f} MiB are {RANKS * STARTS * box >> 20} MiB"
    for file in (UNITS / "run-zmon.mount", REPOSITORY / "docs/deploy/systemd.md"):
        assert sizes in file.read_text()
