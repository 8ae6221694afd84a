"""Tests of `zmon watch` with real jobs: what it says, what it leaves, and its exit code."""

import json
import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from tests.notify.endpoints import HttpEndpoint
from tests.places import REPOSITORY

pytestmark = pytest.mark.e2e

PYTHON = (sys.executable, "train.py")
TRAIN = """
    import sys, time, torch
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        time.sleep(0.02)
        if step == 12 and "raise" in sys.argv:
            raise ValueError("bad batch 17")
"""


class Watch:
    """A watch that runs in a folder of its own."""

    def __init__(self, folder, *arguments, **env):
        folder.mkdir()
        self.folder, self.boxes = folder, folder.parent / "boxes"
        self.boxes.mkdir(exist_ok=True)
        (folder / "train.py").write_text(textwrap.dedent(TRAIN))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
        env = {**clean, "PYTHONPATH": str(REPOSITORY), "ZMON_BOX_DIR": str(self.boxes), "TMPDIR": str(folder), **env}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "zmon", "watch", *arguments],
            cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def read_until(self, text):
        """Wait until it writes this text to stderr."""
        assert any(text in line for line in self._process.stderr)

    def end(self):
        """Wait for the end; return the exit code and what it wrote to stderr."""
        _, self.err = self._process.communicate(timeout=240)
        self.code = self._process.returncode
        return self.code, self.err


def notify_file(folder, url):
    """Return the path of a file with one recipient, who has this URL."""
    path = folder / "notify.yml"
    path.write_text(f"recipients: [{{url: '{url}'}}]")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Three watches that ran at once: a job that finished, one that failed, and the first of two nodes of a third one.

    `received` has the notices about the job that failed.
    """
    folder, endpoint = tmp_path_factory.mktemp("watch"), HttpEndpoint()
    first_of_two = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "ZMON_HOST": "a/b"}
    recipient = notify_file(folder, f"json://127.0.0.1:{endpoint.port}")
    watches = {
        "finished": Watch(folder / "good", "--fail-on", "critical", "--json", "card.json", "--", *PYTHON),
        "failed": Watch(
            folder / "bad", "--report", "copy.html", "--notify-file", str(recipient), "--", *PYTHON, "raise"
        ),
        "part": Watch(folder / "part", "--fail-on", "info", "--", *PYTHON, ZMON_JOB_ID="job", **first_of_two),
    }
    for watch in watches.values():
        watch.end()
    endpoint.close()
    return SimpleNamespace(**watches, received=endpoint.received)


def test_job_that_failed_leaves_its_report_and_its_steps(ended):
    err = ended.failed.err
    assert ended.failed.code == 1, err
    assert "zmon: CRITICAL rank_exited, rank 0" in err
    assert "ended     exit code 1" in err
    assert "ValueError: bad batch 17" in " ".join(err.partition("── zmon watch")[2].split())
    (folder,) = ended.failed.folder.glob("zmon-*")
    report = (folder / "report.html").read_text()
    assert report == (ended.failed.folder / "copy.html").read_text()
    assert "End of standard error" in report
    assert [*(folder / "steps").rglob("*")]


def test_end_of_the_launch_is_sent_to_the_recipients(ended):
    (received,) = ended.received
    assert "failed after" in received["title"]


def test_job_that_finished_while_another_one_failed_has_no_finding_and_leaves_no_box(ended):
    assert ended.finished.code == 0, ended.finished.err
    assert "CRITICAL" not in ended.finished.err
    card = json.loads((ended.finished.folder / "card.json").read_text())
    (job,) = card["jobs"]
    assert (card["ending"], job["steps"], job["view"]["world_size"]) == ("exit code 0", 20, 1)
    assert [*ended.finished.boxes.rglob("*.box")] == []  # all jobs have ended
    assert [*ended.finished.folder.glob("zmon-watch-*")] == []


def test_rank_of_another_node_is_unknown_and_not_missing(ended):
    assert ended.part.code == 0, ended.part.err
    assert "ranks     1 of 2 ranks, this node only on a_b" in ended.part.err
    assert "of the steps of rank 0" in ended.part.err
    assert [folder.name for folder in ended.part.folder.glob("zmon-*")] == ["zmon-job-a_b"]


def test_finding_fails_a_command_that_succeeded(tmp_path):
    wait_for_go = "for _ in $(seq 600); do [ -e go ] && break; sleep 0.1; done"
    launcher = ("sh", "-c", f"{sys.executable} train.py raise; {wait_for_go}")
    watch = Watch(tmp_path / "ignored", "--fail-on", "warning", "--", *launcher)
    watch.read_until("CRITICAL rank_exited")
    (watch.folder / "go").touch()
    code, err = watch.end()
    assert code == 1, err
    assert "exit code 1: rank_exited (critical) opened (--fail-on warning)" in err


def test_command_that_trains_nothing_is_not_called_healthy(tmp_path):
    code, err = Watch(tmp_path / "none", "--fail-on", "warning", "--", "true").end()
    assert code == 3
    assert "watched   nothing: none of its processes began to train" in err
    assert "exit code 3: nothing was watched (--fail-on warning)" in err
    assert not [*(tmp_path / "none").glob("zmon-*")]


def test_file_in_a_folder_that_does_not_exist_is_refused_before_the_command_starts(tmp_path):
    code, err = Watch(tmp_path / "none", "--json", "no/card.json", "--", "touch", "started").end()
    assert (code, len(err.splitlines())) == (2, 1)
    assert "zmon: cannot write no/card.json: its folder does not exist" in err
    assert not (tmp_path / "none" / "started").exists()


def test_job_without_a_folder_for_boxes_runs_unwatched(tmp_path):
    (tmp_path / "file").touch()
    one_of_two = {"RANK": "0", "WORLD_SIZE": "2", "ZMON_BOX_DIR": str(tmp_path / "file")}
    code, err = Watch(tmp_path / "none", "--", "sh", "-c", "exit 6", **one_of_two).end()
    assert code == 6
    assert "watched   nothing: cannot write to" in err


def test_closed_stderr_stays_closed_for_the_command(tmp_path):
    script = f"{sys.executable} -m zmon watch -- ls -l /proc/self/fd 2>&-"
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "ZMON_BOX_DIR": str(tmp_path)}
    done = subprocess.run(["sh", "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert " 2 -> /proc/" in done.stdout  # the first number that is free: ls opens the folder that it lists


def test_quiet_watch_writes_nothing_and_ends_as_its_command(tmp_path):
    assert Watch(tmp_path / "quiet", "--quiet", "--", "bash", "-c", "exit 6").end() == (6, "")


def test_rank_beside_the_first_one_runs_unwatched(tmp_path):
    """A launcher such as srun starts one watch for each rank."""
    launcher = (
        "import os, subprocess, sys; "
        "both = [subprocess.Popen([sys.executable, '-m', 'zmon', 'watch', '--', 'sleep', '2'], "
        "env={**os.environ, 'RANK': str(rank), 'WORLD_SIZE': '2'}, stderr=subprocess.PIPE) for rank in (0, 1)]; "
        "print(sum(b'zmon watch' in each.communicate()[1] for each in both))"
    )
    boxes = tmp_path / "boxes"
    boxes.mkdir()
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "ZMON_BOX_DIR": str(boxes)}
    done = subprocess.run([sys.executable, "-c", launcher], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr
    assert [*boxes.iterdir()] == []


def test_wrong_url_of_a_recipient_is_misuse_before_the_command_starts(tmp_path):
    file = notify_file(tmp_path, "nosuch://s3cr3t")
    run = Watch(tmp_path / "job", "--notify-file", str(file), "--", sys.executable, "-c", "print('started')")
    code, err = run.end()
    assert code == 2
    assert "apprise does not know this nosuch:// URL" in err
    assert "s3cr3t" not in err
