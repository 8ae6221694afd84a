"""Test that builds an image with podman and runs agent and hub in it. It takes minutes and needs root.

Its base image is a Debian that debootstrap makes, since image registries may be out of reach. Without the tools it is
skipped, with a warning that says so.
"""

from __future__ import annotations

import platform
import resource
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from scripts.image_versions import installed_versions, text
from tests.boxes import eventually
from tests.places import REPOSITORY
from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(1200)]
TOOLS = ("podman", "runc", "debootstrap")
BASE = "localhost/zmon-test-base"
IMAGE = "localhost/zmon-test"
USER = 10001  # of the Containerfile
IN_BASE = "python3,python3-venv,python3-dev,gcc,libc6-dev"
RANK = """
import time, zmon
assert zmon.attach(job_id="job")
while True:
    with zmon.step():
        time.sleep(0.05)
"""


def run(*command: str | Path, seconds: float = 600.0) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@dataclass(frozen=True)
class Podman:
    """Podman with its own storage."""

    room: Path

    def __call__(self, *arguments: str | Path) -> str:
        places = ("--root", self.room / "storage", "--runroot", self.room / "run", "--runtime", "runc")
        return run("podman", *places, *arguments)

    def start(self, name: str, *arguments: str | Path, entry: str = "zmon") -> None:
        """Start a container that may do nothing and write nowhere but /tmp and its volumes."""
        _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = min(16_384, most_files)  # a root without CAP_SYS_RESOURCE gets no more
        limits = [f"--ulimit=nofile={files}:{files}", "--ulimit=nproc=1024:1024"]
        self(
            *("run", "--detach", "--name", name, "--read-only", "--tmpfs=/tmp", "--cap-drop=all"),
            *("--security-opt=no-new-privileges", "--network=host", "--pid=host", *limits),
            *("--volume", f"{self.room / 'boxes'}:/run/zmon", "--volume", f"{self.room / name}:/var/lib/zmon"),
            *("--entrypoint", entry, IMAGE, *arguments),
        )


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Yield podman with the image in its storage."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        why = f"the container image was not built: there is no {', '.join(missing)}"
        warnings.warn(why, stacklevel=1)
        pytest.skip(why)
    room = tmp_path_factory.mktemp("containers")
    container = Podman(room)
    (room / "boxes").mkdir()
    run("mount", "-t", "tmpfs", "-o", "mode=1777,size=64m", "tmpfs", room / "boxes")
    try:
        make_base(container, room)
        build(container, room)
        yield container
    finally:
        subprocess.run(["umount", str(room / "boxes")], check=False)
        container("rm", "--all", "--force", "--time", "1")
        container("rmi", "--all", "--force")


def make_base(podman: Podman, room: Path) -> None:
    """Make the base image from Debian's packages, of the version of this machine and with its Python."""
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    formatted = ("--format", "$(REPO_URI)", "Created-By: Packages", "Component: main", f"Codename: {release}")
    mirror = run("apt-get", "indextargets", *formatted).split()[0]
    run("debootstrap", "--variant=minbase", f"--include={IN_BASE}", release, room / "base", mirror)
    version = run("chroot", room / "base", "python3", "-c", "import sys; print(*sys.version_info[:2])").split()
    if version != list(map(str, sys.version_info[:2])):
        pytest.skip(f"Debian has Python {'.'.join(version)}, and the wheels here are for another one")
    run("tar", "-C", room / "base", "-cf", room / "base.tar", ".")
    podman("import", room / "base.tar", BASE)
    shutil.rmtree(room / "base")  # pytest keeps the folders of its last runs
    (room / "base.tar").unlink()


def build(podman: Podman, room: Path) -> None:
    """Build the image from wheels in a folder, without a package index."""
    (room / "versions").write_text(text(installed_versions(["zmon", "setuptools"])))
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", room / "wheels", "-r", room / "versions")
    podman(
        *("build", "--isolation=chroot", "--file", REPOSITORY / "deploy/container/Containerfile", "--target=zmon"),
        *(f"--build-arg=BUILD_BASE={BASE}", f"--build-arg=BASE={BASE}", "--tag", IMAGE),
        *("--volume", f"{room / 'wheels'}:/wheels:ro", "--build-arg=PIP_NO_INDEX=1"),
        *("--build-arg=PIP_FIND_LINKS=/wheels", REPOSITORY),
    )


def test_agent_and_hub_watch_a_rank_as_an_ordinary_user_on_a_read_only_root(podman):
    agent, hub = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    for name in ("agent", "hub", "rank"):
        (podman.room / name).mkdir()
        shutil.chown(podman.room / name, USER, USER)
    podman.start("agent", "agent", "--port", agent.rpartition(":")[2])
    podman.start("hub", "hub", "--port", hub.rpartition(":")[2], "--agents", agent)
    podman.start("rank", "-c", RANK, entry="python")

    def job_has_steps() -> bool:
        try:
            jobs = requests.get(f"{hub}/api/v1/jobs", timeout=5).json()["jobs"]
        except requests.ConnectionError:
            return False
        return bool(jobs) and bool(jobs[0]["step"])

    assert eventually(job_has_steps, 60), podman("logs", "agent") + podman("logs", "hub")
    assert podman("exec", "hub", "id", "-u").strip() == str(USER)
    assert "ro," in podman("exec", "hub", "grep", " / ", "/proc/mounts")
    assert "job" in podman("exec", "hub", "zmon", "status", "--hub", hub)
    assert eventually(lambda: list(podman.room.glob("agent/steps/job/*")), 30)
    podman("stop", "--time=20", "agent", "hub")
    assert podman("inspect", "--format={{.State.ExitCode}}", "agent", "hub").split() == ["0", "0"]
