"""Tests of the folders in which agents look for boxes, and of the example job, which has its boxes there."""

import json
import subprocess

import pytest

from tests.deploy.helm.conftest import ISSUER, install
from tests.deploy.helm.pod_security import violations
from tests.hostile.users import needs_root

WITH_EMPTY_DIR = "secrets"  # the values of helm/zmon/ci with emptyDir boxes, a given namespace and two hubs


def test_namespace_of_agents_allows_privileged_pods(installed):
    labels = installed("default").of("Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_namespace_that_is_given_is_not_made(installed):
    assert not [thing for thing in installed(WITH_EMPTY_DIR) if thing["kind"] == "Namespace"]


def test_agents_mount_the_folders_of_the_kubelet_only_with_emptydir_boxes(installed):
    names = ("default", WITH_EMPTY_DIR)
    default, in_volumes = (installed(name).of("DaemonSet")["spec"]["template"]["spec"] for name in names)
    assert "/var/lib/kubelet/pods" in json.dumps(in_volumes)
    assert "/var/lib/kubelet" not in json.dumps(default)
    assert "initContainers" not in in_volumes
    assert [container["name"] for container in in_volumes["containers"]] == ["agent"]


FOLDERS = {  # what the boxes of a node are in → commands that mount it, exit code of the init container
    "a tmpfs": ("mount -t tmpfs -o mode=1777 zmon /run/zmon", 0),
    "a tmpfs of the host": ("mount -t tmpfs -o mode=1777 zmon /run/host && mount --bind /run/host /run/zmon", 0),
    "a part of the host's /run": ("chmod 1777 /run/host && mount --bind /run/host /run/zmon", 1),
    "a tmpfs that users may not write": ("mount -t tmpfs -o mode=755 zmon /run/zmon", 1),
}


@needs_root
@pytest.mark.parametrize(("mounts", "code"), FOLDERS.values(), ids=FOLDERS)
def test_agents_start_only_where_the_boxes_have_a_tmpfs_of_their_own(installed, mounts, code):
    (init,) = installed("plain").of("DaemonSet")["spec"]["template"]["spec"]["initContainers"]
    script = f'mount -t tmpfs none /run && mkdir /run/zmon /run/host && {mounts} && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *init["command"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, "Install deploy/systemd/run-zmon.mount" in done.stderr) == (code, code == 1)


def test_only_the_process_without_a_port_may_write_the_folders_of_pods(installed):
    agent, folders = installed("plain").of("DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert "DAC_OVERRIDE" not in agent["securityContext"]["capabilities"]["add"]
    assert folders["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]}
    assert "ports" not in folders
    assert folders["volumeMounts"] == [{"name": "boxes", "mountPath": "/run/zmon"}]


@pytest.mark.parametrize("mode", ["hostPath", "emptyDir"])
def test_example_job_has_its_boxes_where_the_agent_looks(mode):
    release = install(ISSUER | {"example": {"enabled": True}, "boxes": {"mode": mode}})
    (node,) = release.of("JobSet")["spec"]["replicatedJobs"]
    pod = node["template"]["spec"]["template"]["spec"]
    names = {variable["name"] for variable in pod["containers"][0]["env"]}
    assert {"ZMON_JOB_ID", "ZMON_ATTEMPT"} <= names
    assert ("ZMON_BOX_DIR" in names) == (mode == "emptyDir")
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "zmon-boxes"]
    assert mode in volume
    (mount,) = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "zmon-boxes"]
    # A user id would not separate teams, so each pod has its own folder.
    assert mount.get("subPathExpr") == {"hostPath": "$(POD_UID)", "emptyDir": None}[mode]
    uids = [variable["valueFrom"] for variable in pod["containers"][0]["env"] if variable["name"] == "POD_UID"]
    assert [uid["fieldRef"]["fieldPath"] for uid in uids] == ["metadata.uid"] * (mode == "hostPath")
    assert violations(pod) == ([] if mode == "emptyDir" else ["volumes"])
