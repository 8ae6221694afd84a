"""Tests of the search for the box directories of all users and pods, also if a stranger has taken the name of one."""

import dataclasses
import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.agent.agent_client import failing_at
from tests.boxes import Box
from tests.hostile.users import ANN, BOB, give, needs_root
from zmon.agent.rank_evidence import locate_rank
from zmon.agent.sources import box_listing, box_roots, rank_limit
from zmon.agent.sources.box_roots import BoxRoots, Root
from zmon.agent.sources.boxes import Boxes
from zmon.box.roots import POD_VOLUME, Places
from zmon.schema.api import EvidenceRequest

pytestmark = needs_root


def make_folder_of(uid, folder):
    """Make a private folder of a user."""
    folder.mkdir(0o700)
    give(folder, uid)


@pytest.fixture
def make_box(stand_in, clock):
    """Return a function that writes the box of a living rank of a user."""

    def make(root, owner, **identity):
        process = stand_in()
        box = Box(root, clock, {"pid": process.pid, **identity}, process)
        give(root, owner)
        return box

    return make


@pytest.fixture
def boxes(places, clock):
    """Return the boxes of all users, as an agent reads them."""
    return Boxes(None, "node-a", clock=clock, places=places)


def test_directory_of_each_user_is_found(places):
    for uid in (0, ANN):
        make_folder_of(uid, places.in_shm(uid))
    roots, problems = BoxRoots(None, places).find()
    assert sorted(roots) == sorted([Root(str(places.in_shm(0)), 0), Root(str(places.in_shm(ANN)), ANN)])
    assert problems == []


@pytest.mark.parametrize("name", ["zmon-", "zmon-x", "zmon-01", "zmon--1", "zmon-scaling-1", "other-5"])
def test_names_without_a_uid_are_of_no_user(places, name):
    (places.shm / name).mkdir()
    assert BoxRoots(None, places).find() == ([], [])


@pytest.mark.parametrize(
    "make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("/root")], ids=["folder", "file", "link"]
)
def test_squatted_name_is_reported_with_its_owner(places, make):
    path = places.in_shm(ANN)
    make(path)
    os.chown(path, BOB, -1, follow_symlinks=False)
    roots, (problem,) = BoxRoots(None, places).find()
    assert roots == []
    assert f"{path} belongs to uid {BOB}" in problem
    assert f"ranks of uid {ANN} run unwatched" in problem


def test_missing_places_have_no_directories(tmp_path):
    assert BoxRoots(None, Places(tmp_path / "no", tmp_path / "none")).find() == ([], [])


@pytest.fixture
def pods(places, tmp_path):
    """Return the places of a node of Kubernetes with two pods; the second has no volume of boxes."""
    places = dataclasses.replace(places, pods=tmp_path / "pods")
    places.in_pod("uid-1").mkdir(parents=True)
    (places.pods / "uid-2/volumes/kubernetes.io~empty-dir/data").mkdir(parents=True)
    return places


def test_volume_of_boxes_of_each_pod_is_found(pods):
    assert BoxRoots(None, pods).find() == ([Root(str(pods.in_pod("uid-1")), None, pod="uid-1")], [])
    assert BoxRoots(None, pods).patterns[-1] == str(pods.pods / "*/volumes/kubernetes.io~empty-dir" / POD_VOLUME)


def test_ranks_of_several_users_may_share_the_volume_of_a_pod(pods, make_box, clock):
    volume = pods.in_pod("uid-1")
    for uid in (ANN, BOB):
        make_box(volume / f"of-{uid}", uid, job_id=f"job-{uid}")
        (volume / f"of-{uid}" / f"job-{uid}").rename(volume / f"job-{uid}")
    boxes = Boxes(None, "node-a", clock=clock, places=pods)
    boxes.scan()
    assert {(state.job_id, state.owner) for _, state in boxes.ranks()} == {(f"job-{ANN}", ANN), (f"job-{BOB}", BOB)}


def test_link_in_place_of_a_volume_is_not_followed(pods):
    link = pods.in_pod("uid-2")
    link.symlink_to("/root")
    assert link.is_dir()
    assert [root.path for root in BoxRoots(None, pods).find()[0]] == [str(pods.in_pod("uid-1"))]


def test_pod_that_cannot_be_read_hides_no_other(pods, monkeypatch):
    broken = pods.in_pod("uid-2")
    broken.mkdir()
    error = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(type(broken), "is_dir", failing_at(type(broken).is_dir, str(broken), error))
    roots, (problem,) = BoxRoots(None, pods).find()
    assert [root.path for root in roots] == [str(pods.in_pod("uid-1"))]
    assert problem == f"the boxes of a pod: cannot read {broken}: Input/output error"


def test_volumes_that_may_not_be_read_are_counted_beyond_the_limit_of_lines(pods, monkeypatch):
    pods.in_pod("uid-2").mkdir()
    monkeypatch.setattr(box_roots, "_MAX_PROBLEMS", 1)
    monkeypatch.setattr(box_roots, "_may_read", lambda path: False)
    _, problems = BoxRoots(None, pods).find()
    assert problems[1:] == ["1 more directories are unusable like these"]


def test_pods_that_cannot_be_listed_are_reported(pods, tmp_path):
    (tmp_path / "file").touch()
    roots, (problem,) = BoxRoots(None, dataclasses.replace(pods, pods=tmp_path / "file")).find()
    assert roots == []
    assert problem == f"the boxes of pods: cannot read {tmp_path / 'file'}: Not a directory"


POD, OTHER_POD = (f"3f2a9c1e-0000-4000-8000-00000000000{number}" for number in (1, 2))


@pytest.fixture
def shared(places):
    """Return the places of a node of Kubernetes; the kubelet made a folder for each of two pods in `/run/zmon`."""
    places.run.chmod(0o1777)
    (places.run / "mounts").write_text(tmpfs(places.run))
    for pod in (POD, OTHER_POD):
        (places.run / pod).mkdir()
        (places.run / pod).chmod(0o1777)  # as that of the directory in which it is
    return dataclasses.replace(places, mounts=places.run / "mounts")


def tmpfs(folder):
    """Return a line of /proc/self/mountinfo that says that the device of this folder is a tmpfs."""
    device = folder.stat().st_dev
    return f"21 1 {os.major(device)}:{os.minor(device)} / /x rw - tmpfs none rw\n"


def test_pods_with_one_user_have_folders_of_their_own(shared, make_box, clock):
    for pod in (POD, OTHER_POD):
        make_box(shared.run / pod / str(ANN), ANN, job_id=f"job-{pod[-1]}")
    boxes = Boxes(None, "node-a", clock=clock, places=shared)
    boxes.scan()
    assert {(state.job_id, state.owner) for _, state in boxes.ranks()} == {("job-1", ANN), ("job-2", ANN)}


@pytest.mark.parametrize("name", ["3f2a9c1e", "..", f"{POD}-x", POD.upper()])
def test_folder_whose_name_is_no_uid_of_a_pod_is_not_read(shared, name):
    if name != "..":
        (shared.run / name / "0").mkdir(parents=True)
    assert BoxRoots(None, shared).find() == ([], [])


def test_folder_of_a_pod_that_a_user_made_is_reported_and_not_read(shared):
    make_folder_of(ANN, shared.run / POD / str(ANN))
    os.chown(shared.run / POD, BOB, -1)
    roots, (problem,) = BoxRoots(None, shared).find()
    assert roots == []
    assert f"belongs to uid {BOB}: ranks of the pod {POD} run unwatched until" in problem


def test_pod_with_too_many_boxes_hides_no_other_pod_of_the_same_user(shared, make_box, clock, monkeypatch):
    monkeypatch.setattr(rank_limit, "MAX_RANKS", 4)
    monkeypatch.setattr(box_listing, "MAX_ENTRIES", 20)
    folder = shared.run / OTHER_POD / str(ANN) / "job/0"
    make_box(shared.run / OTHER_POD / str(ANN), ANN)
    for rank in range(1, 30):
        shutil.copy(folder / "rank-0.box", folder / f"rank-{rank}.box")
    give(folder.parents[1], ANN)
    make_box(shared.run / POD / str(ANN), ANN, job_id="small")
    boxes = Boxes(None, "node-a", clock=clock, places=shared)
    boxes.scan()
    assert "small" in {state.job_id for _, state in boxes.ranks()}
    assert f"the pod {OTHER_POD} has more than 20 files" in str(boxes.read().dropped)


def test_copied_run_uid_leads_to_no_process_of_another_pod(shared, make_box, clock):
    boxes = Boxes(None, "node-a", clock=clock, places=shared)
    first = make_box(shared.run / POD / str(ANN), ANN, job_id="train")
    boxes.scan()
    copied = make_box(shared.run / OTHER_POD / str(ANN), ANN, job_id="other")
    boxes.scan()
    (run_uid,) = {box.identity.run_uid for box, _ in boxes.ranks()}
    runs = {run: process.pid for run, process in boxes.runs.items()}
    assert runs == {run_uid: first.holder.pid, f"{run_uid}.uid{ANN}": copied.holder.pid}


def test_box_of_another_owner_than_its_directory_is_set_aside(places, make_box, boxes):
    foreign = make_box(places.in_shm(ANN), ANN)
    os.chown(foreign.path, BOB, -1)
    boxes.scan()
    assert f"it belongs to uid {BOB}, not to uid {ANN}" in boxes.damaged[foreign.path]
    assert list(boxes.ranks()) == []


def test_link_to_the_boxes_of_another_user_is_not_followed(places, make_box, boxes):
    make_box(places.in_shm(ANN), ANN)
    make_folder_of(BOB, places.in_shm(BOB))
    (places.in_shm(BOB) / "job").symlink_to(places.in_shm(ANN) / "job")
    boxes.scan()
    assert [state.owner for _, state in boxes.ranks()] == [ANN]


def test_job_id_of_two_users_is_two_jobs_and_a_line(places, make_box, boxes):
    make_box(places.in_shm(ANN), ANN, job_id="train", start_unix=1e9)
    boxes.scan()
    make_box(places.in_shm(BOB), BOB, job_id="train", start_unix=0.0)  # it came later, whatever it says
    boxes.scan()
    states = {state.owner: (state.job_id, state.wanted_job_id) for _, state in boxes.ranks()}
    assert states == {ANN: ("train", ""), BOB: (f"train.uid{BOB}", "train")}
    assert set(boxes.processes.values()) == {("train", 0), (f"train.uid{BOB}", 0)}
    assert f"the job id train of uid {BOB} is also that of another user's job" in str(boxes.read().dropped)


def test_two_jobs_keep_their_names_when_one_ends(places, make_box, boxes, clock):
    first = make_box(places.in_shm(ANN), ANN, job_id="train", start_unix=1.0)
    make_box(places.in_shm(BOB), BOB, job_id="train", start_unix=2.0)
    boxes.scan()
    first.holder.end()
    first.path.unlink()
    boxes.scan()
    clock.sleep(70)
    boxes.scan()
    assert [state.job_id for _, state in boxes.ranks()] == [f"train.uid{BOB}"]


def test_copied_run_uid_leads_to_no_process_of_another_user(places, make_box, boxes):
    """Run uids are public, and the agent finds the stderr of a rank by its run uid."""
    first = make_box(places.in_shm(ANN), ANN, job_id="train", start_unix=1e9)
    boxes.scan()
    copied = make_box(places.in_shm(BOB), BOB, job_id="other", start_unix=2e9)
    boxes.scan()
    (run_uid,) = {box.identity.run_uid for box, _ in boxes.ranks()}
    runs = {run: process.pid for run, process in boxes.runs.items()}
    assert runs == {run_uid: first.holder.pid, f"{run_uid}.uid{BOB}": copied.holder.pid}
    assert locate_rank(boxes, EvidenceRequest("other", "0")).run_uid == f"{run_uid}.uid{BOB}"
    assert locate_rank(boxes, EvidenceRequest("other", "0", run_uid)).socket.owner == ANN
