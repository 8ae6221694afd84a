"""Tests of ranks whose tmpfs of boxes is full: they train without a box and say so, and never die of SIGBUS.

The tmpfs has the options of deploy/systemd/run-zmon.mount. The test mounts it in a mount namespace.
"""

import os
import subprocess
import sys

import pytest

from tests.deploy.test_systemd import RANKS, STARTS, mount_options
from tests.hostile.users import needs_root

pytestmark = needs_root
OPTIONS = ",".join(name if value is None else f"{name}={value}" for name, value in mount_options().items())
SMALL = OPTIONS.replace("256M", "8M")  # so that it is full soon
FEW_INODES = OPTIONS.replace("8192", "16")
FILL = "head -c 1G /dev/zero >/run/zmon/fill"
USE_ALL_INODES = "i=0; while : >/run/zmon/fill-$i; do i=$((i + 1)); done"
ATTACH = "import os, zmon\nfrom zmon.probe import attach_box\nprint(attach_box())"
STEPS = "for _ in range(5000):\n    with zmon.step():\n        zmon.phase('forward')\nprint('trained')"


def run(script, before=":", options=OPTIONS):
    """Run Python code where `/run/zmon` is a tmpfs with these options, after shell commands; return the lines."""
    mounts = f"mount -t tmpfs none /run && mkdir /run/zmon && mount -t tmpfs -o {options} zmon /run/zmon || exit 99"
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    command = ["unshare", "--mount", "sh", "-c", f'{mounts}\n({before}) 2>/dev/null\nexec "$@"', "sh"]
    done = subprocess.run(
        [*command, sys.executable, "-c", script], env={**env, "RANK": "0", "WORLD_SIZE": "1", "ZMON_JOB_ID": "job"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def test_tmpfs_of_the_unit_has_room_for_all_boxes_and_every_page_of_them_has_memory():
    lines = run("""
from pathlib import Path
from zmon.box import BoxWriter
from zmon.errors import BoxUnavailable
writers = []
try:
    while True:
        writers.append(BoxWriter(Path(f"/run/zmon/0/job/0/rank-{len(writers)}.box")))
except BoxUnavailable as error:
    print(len(writers), error)
for writer in writers:
    writer.view[:] = bytes(len(writer.view))  # a page without memory is a SIGBUS
""")
    number, _, error = lines[0].partition(" ")
    assert int(number) >= RANKS * STARTS
    assert "No space left on device" in error


NO_BOX = {
    "bytes": (FILL, SMALL),
    "bytes, with a directory of the user": (f"mkdir -m 700 /run/zmon/0; {FILL}", SMALL),
    "inodes": (USE_ALL_INODES, FEW_INODES),
}


@pytest.mark.parametrize(("before", "options"), NO_BOX.values(), ids=NO_BOX)
def test_rank_trains_without_a_box_and_says_why(before, options):
    message, *output = run(f"{ATTACH}\n{STEPS}", before, options)
    assert output == ["False", "trained"]
    assert message.startswith("zmon: cannot create")
    assert "No space left on device" in message
    assert "the job continues unwatched" in message


def test_rank_with_a_box_goes_on_when_others_fill_the_tmpfs():
    script = f"{ATTACH}\nos.system({FILL + ' 2>/dev/null'!r})\n{STEPS}\nprint(os.listdir('/run/zmon/0/job/0'))"
    assert run(script, options=SMALL) == ["True", "trained", "['rank-0.box']"]


def test_full_tmpfs_of_boxes_leaves_room_in_the_tmpfs_of_run():
    (line,) = run("import shutil; print(shutil.disk_usage('/run').free > 2**20)", FILL, SMALL)
    assert line == "True"
