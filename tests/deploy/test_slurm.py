"""Tests of the scripts for Slurm, without Slurm: they get its variables, and shell commands stand in for scontrol.

docs/deploy/slurm.md says what was tried with a real slurmctld and slurmd.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.boxes import eventually
from tests.hostile.users import needs_root
from tests.places import REPOSITORY
from zmon.agent.sources.holders import holders

UID = 23457  # it needs no account
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(UID), "SLURM_JOB_GID": str(UID)}
SCRIPTS = REPOSITORY / "deploy/slurm"
# Slurm 22.05: scontrol show nodes --oneliner
NODES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 NodeAddr=10.0.0.1 NodeHostName=n1 State=IDLE ThreadsPerCore=1
NodeName=n2 Arch=x86_64 CPUAlloc=2 NodeAddr=10.0.0.2 State=ALLOCATED+DRAIN Reason=disk State=DOWN [root@2026-11-25]
NodeName=n3 CPUAlloc=0 NodeAddr=10.0.0.3 State=DOWN* ThreadsPerCore=1
NodeName=n4 CPUAlloc=0 NodeAddr=10.0.0.4 State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1
NodeName=n5 CPUAlloc=0 State=MIXED ThreadsPerCore=1
"""


def run(*command, **environment):
    """Run a program with these variables and PATH; return the finished process."""
    env = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run([*map(str, command)], env=env, capture_output=True, text=True, timeout=30, check=False)


def add_program(folder, name, script):
    """Make a program of these shell commands; return a PATH in which it comes first."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def targets(tmp_path, scontrol):
    """Run targets.py with these shell commands in place of scontrol; return the finished process."""
    path = add_program(tmp_path, "scontrol", scontrol)
    return run(sys.executable, SCRIPTS / "targets.py", tmp_path / "agents.json", "--scheme", "https", PATH=path)


def test_nodes_that_are_up_are_targets(tmp_path):
    assert targets(tmp_path, f"cat <<'E'\n{NODES}E").returncode == 0
    (group,) = json.loads((tmp_path / "agents.json").read_text())
    assert group == {"targets": ["10.0.0.1:9780", "10.0.0.2:9780", "n5:9780"], "labels": {"__scheme__": "https"}}


def test_file_stays_if_scontrol_fails(tmp_path):
    (tmp_path / "agents.json").write_text("[]")
    done = targets(tmp_path, "echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Unable to contact" in done.stderr
    assert (tmp_path / "agents.json").read_text() == "[]"


STEPS = {
    "step": ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2"}, "export ZMON_JOB_ID=slurm-7.2\n"),
    "batch script": ({"SLURM_JOB_ID": "7"}, "export ZMON_JOB_ID=slurm-7.batch\n"),
    "step of a batch script": (
        {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2", "ZMON_JOB_ID": "slurm-7.batch"},
        "export ZMON_JOB_ID=slurm-7.2\n",
    ),
    "a name of the user": ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2", "ZMON_JOB_ID": "mine"}, ""),
    "outside a job": ({}, ""),
}


@pytest.mark.parametrize(("environment", "answer"), STEPS.values(), ids=STEPS)
def test_two_steps_of_a_job_are_two_jobs(environment, answer):
    done = run(SCRIPTS / "task_prolog.sh", **environment)
    assert (done.returncode, done.stdout) == (0, answer)


@needs_root
def test_epilog_removes_the_boxes_of_its_job_only():
    folder = Path(f"/dev/shm/zmon-{UID}")
    folder.mkdir(mode=0o700)
    try:
        for name in ("slurm-7", "slurm-7.0", "slurm-71.0", "other"):
            (folder / name).mkdir()
        (folder / "slurm-7.1").symlink_to("/etc")
        os.chown(folder, UID, UID)
        begin = time.monotonic()
        assert run(SCRIPTS / "epilog.sh", **JOB, ZMON_EPILOG_SECONDS="0").returncode == 0
        assert time.monotonic() - begin < 2.0
        remaining = ["other", "slurm-7.1", "slurm-71.0"]
        assert eventually(lambda: sorted(path.name for path in folder.iterdir()) == remaining, 10)
        time.sleep(0.1)  # in which the epilog could delete more
        assert sorted(path.name for path in folder.iterdir()) == remaining
        assert Path("/etc/passwd").exists()
    finally:
        shutil.rmtree(folder)


@needs_root
@pytest.mark.parametrize("mounted", [True, False], ids=["a tmpfs of its own", "no mount"])
def test_prolog_makes_no_directory_in_run_that_everybody_may_write(tmp_path, mounted):
    """A job that fills the tmpfs of `/run` stops systemd, sshd and slurmd."""
    path = add_program(tmp_path, "systemctl", f"echo $@ >{tmp_path}/asked")
    mount = "mkdir /run/zmon && mount -t tmpfs -o mode=1777 zmon /run/zmon &&" if mounted else ""
    report = "stat -c '%n %a %u' /run/zmon /run/zmon/* /dev/shm/* 2>/dev/null"
    script = f"mount -t tmpfs none /run && mount -t tmpfs none /dev/shm && {mount} {SCRIPTS}/prolog.sh; {report}"
    lines = run("unshare", "--mount", "sh", "-c", script, **JOB, PATH=path).stdout.splitlines()
    if mounted:
        assert lines == ["/run/zmon 1777 0", f"/run/zmon/{UID} 700 {UID}"]
    else:
        assert lines == [f"/dev/shm/zmon-{UID} 700 {UID}"]
        assert (tmp_path / "asked").read_text() == "start run-zmon.mount\n"


@needs_root
@pytest.mark.parametrize(
    ("gpus", "user", "expected"),
    [
        pytest.param("0,3", "ann", {"slurm-7": ({0, 3}, "ann")}, id="two GPUs"),
        pytest.param("2", "a'\"b", {"slurm-7": ({2}, "")}, id="an odd name"),
        pytest.param("", "ann", {}, id="no GPU"),
        pytest.param("0;rm", "ann", {}, id="no numbers"),
    ],
)
def test_agent_reads_what_the_prolog_writes_until_the_epilog_removes_it(tmp_path, gpus, user, expected):
    copy = tmp_path / "copy"
    copy.mkdir()
    script = (
        f"umask 077; mount -t tmpfs none /run && mount -t tmpfs none /dev/shm && {SCRIPTS}/prolog.sh;"
        f" cp -p /run/zmon-held/* {copy}; {SCRIPTS}/epilog.sh; ls /run/zmon-held"
    )
    environment = {**JOB, "SLURM_JOB_GPUS": gpus, "SLURM_JOB_USER": user, "ZMON_EPILOG_SECONDS": "0"}
    assert run("unshare", "--mount", "sh", "-c", script, **environment).stdout == ""
    dropped = []
    listed = holders(tmp_path / "cgroup", copy, dropped, pods=None)
    assert {holder.name: (holder.gpus, holder.user) for holder in listed} == expected
    assert dropped == []
    assert {path.stat().st_mode & 0o777 for path in copy.iterdir()} <= {0o644}


@pytest.mark.parametrize("name", ["prolog.sh", "epilog.sh"])
@pytest.mark.parametrize("uid", ["", "-1", "0;touch /tmp/owned", "../.."])
def test_prolog_and_epilog_succeed_and_do_nothing_if_an_id_is_no_number(name, uid):
    environment = {"SLURM_JOB_ID": uid, "SLURM_JOB_UID": uid, "SLURM_JOB_GID": uid}
    done = subprocess.run([str(SCRIPTS / name)], env=environment, capture_output=True, timeout=2, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_batch_script_is_valid_bash():
    """The other tests run the other scripts, but this one needs a cluster."""
    assert run("bash", "-n", SCRIPTS / "job.sbatch").returncode == 0


@pytest.mark.parametrize(
    ("line", "code", "drain", "node", "drained"),
    [
        pytest.param("2 GPUs without a fault", 0, "1", "IDLE", False, id="ok"),
        pytest.param("fault: GPU 0 is lost", 1, "1", "IDLE", True, id="fault"),
        pytest.param("fault: GPU 0 is lost", 1, "0", "IDLE", False, id="not asked to"),
        pytest.param("fault: GPU 0 is lost", 1, "1", "IDLE+DRAIN", False, id="drained already"),
        pytest.param("cannot reach the agent", 2, "1", "IDLE", False, id="unknown"),
        pytest.param("", 1, "1", "IDLE", False, id="broken installation"),
    ],
)
def test_health_check_drains_only_at_a_fault_and_only_if_asked_to(tmp_path, line, code, drain, node, drained):
    add_program(tmp_path, "zmon", f"echo '{line}'; exit {code}")
    scontrol = f'[ "$1" = show ] && echo "State={node}" && exit; echo "$@" > {tmp_path}/update'
    env = {"PATH": add_program(tmp_path, "scontrol", scontrol), "ZMON_DRAIN": drain, "SLURMD_NODENAME": "n1"}
    assert run(SCRIPTS / "health.sh", **env, ZMON="zmon").returncode == 0
    assert (tmp_path / "update").exists() == drained
    assert run(SCRIPTS / "health.sh", **env, ZMON="nowhere").returncode == 0
    if drained:
        assert (tmp_path / "update").read_text() == "update nodename=n1 state=drain reason=zmon: fault: GPU 0 is lost\n"
