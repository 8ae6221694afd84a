"""Tests of the limit of open files. It is raised at the start, and a daemon that cannot work with it does not start."""

import json
import resource
import subprocess
import sys

import pytest

from zmon.errors import UsageError
from zmon.web.open_files import LIMITS, connections_within

RAISE = "import json, resource; from zmon.web.open_files import raise_limit; " \
    "print(json.dumps([raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE)]))"  # fmt: skip


@pytest.mark.parametrize(
    ("soft", "hard", "limit"), [(256, 2048, 2048), (1024, 1024, 1024), (256, None, None)],
)  # fmt: skip
def test_limit_is_raised_as_far_as_the_process_may(soft, hard, limit):
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    hard = now if hard is None else hard
    child = subprocess.run(
        [sys.executable, "-c", RAISE],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        capture_output=True,
        check=True,
    )
    assert json.loads(child.stdout) == [limit or min(hard, 65_536), limit or min(hard, 65_536), hard]


def test_clients_get_what_the_daemon_does_not_need():
    assert connections_within(1024, 384) == LIMITS.most
    assert connections_within(800, 384) == 800 - 384 - 3 * LIMITS.accepted_at_once
    assert connections_within(65_536, 384) == LIMITS.most


def test_refusal_says_the_number_of_files_that_are_needed():
    with pytest.raises(UsageError, match=r"1,024 files, but it needs 1,472.*ulimit -n 1472") as refused:
        connections_within(1024, 1360)
    assert connections_within(1472, 1360) == LIMITS.fewest
    assert "\n" not in str(refused.value)
