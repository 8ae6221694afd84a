"""Tests of two pods that both run as root and do not trust each other. `subPathExpr` gives each pod its own folder.

The test makes the folders and mounts of a kubelet in mount namespaces. Ranks and agent are real.
"""

import os
import subprocess
import sys

from tests.hostile.test_full_tmpfs import OPTIONS
from tests.hostile.users import needs_root

pytestmark = needs_root
POD, STRANGER = (f"3f2a9c1e-0000-4000-8000-00000000000{number}" for number in (1, 2))
RANK = """
import os, sys, time, zmon
from zmon.probe import attach_box
assert attach_box()
for number in range(200):
    with zmon.step():
        time.sleep(0.02)
print("trained")
"""
AGENT = """
from zmon.agent.sources.boxes import Boxes
boxes = Boxes(None, "node-a")
boxes.scan()
print(sorted((box.tenant, state.job_id) for box, state in boxes.ranks()), boxes.damaged)
"""
NODE = """
mount -t tmpfs none /dev/shm
mount -t tmpfs none /run && mkdir /run/zmon && mount -t tmpfs -o "$OPTIONS" zmon /run/zmon || exit 1
for pod in $POD $STRANGER; do mkdir -m 1777 /run/zmon/$pod; done
in_pod() { unshare --mount sh -c 'mount --bind /run/zmon/$0 /run/zmon && exec "$@"' "$@"; }
ZMON_JOB_ID=victim in_pod $POD "$PYTHON" -c "$CODE" &
until [ -e /run/zmon/$POD/0/victim/0/rank-0.box ]; do sleep 0.1; done
in_pod $STRANGER find /run/zmon -name '*.box' -exec truncate --size 0 {} +
ZMON_JOB_ID=other in_pod $STRANGER "$PYTHON" -c "$CODE" >/dev/null &
until [ -e /run/zmon/$STRANGER/0/other/0/rank-0.box ]; do sleep 0.1; done
"$PYTHON" -c "$AGENT"
wait
"""


def test_root_in_a_pod_reaches_no_box_of_another_pod_and_the_agent_reads_both():
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    variables = {"OPTIONS": OPTIONS, "POD": POD, "STRANGER": STRANGER}
    variables |= {"CODE": RANK, "AGENT": AGENT, "PYTHON": sys.executable}
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", NODE], env={**env, **variables, **rank},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    both = [(f"the pod {POD}", "victim"), (f"the pod {STRANGER}", "other")]
    # On a busy machine the rank may end before the agent has printed.
    assert sorted(done.stdout.splitlines()) == [f"{both} {{}}", "trained"]
