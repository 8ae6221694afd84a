"""Tests of what a rank records when it joins a process group, such as the timeout after which torch ends a hang."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.probe.hooks.scripts import JOIN, cases
from zmon.probe.hooks.world import collective_timeout

LABEL = """
def label(name):
    return probe._identity.labels.get(name)
"""

SCRIPTS = """
== timeout of the process group is a label
import datetime
print(label("collective_timeout_seconds"))  # > None
join("default")
print(label("collective_timeout_seconds"))  # > 1800
dist.destroy_process_group()
join("set", timeout=datetime.timedelta(seconds=77.5))
print(label("collective_timeout_seconds"))  # > 77.5

== rank that joins again counts its collectives from 0, and notes its steps before
from zmon.probe.rank import OP_NUMBER
def run(number):
    for _ in range(number):
        with zmon.step():
            dist.all_reduce(torch.ones(1))
def noted():
    return label("steps_before_join"), timeline.sequence(OP_NUMBER["all_reduce"], 0)
join("first")
run(5)
print(*noted())  # > None 5
dist.destroy_process_group()
print(*noted())  # it keeps its counts, which show afterwards who waited for whom  # > None 5
join("second")
run(2)
print(*noted())  # > 5 2

== backend and names of the last groups are known
for name in ("first", "second"):
    join(name)
    other = dist.new_group([0])
    dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(1), group=other)
    dist.destroy_process_group()
names = [name for name, _ in timeline.group.__self__._groups]
print(len(names), len(set(names)), probe._identity.backend, timeline.ledger.dropped)  # > 2 2 gloo 0
"""


@pytest.mark.parametrize("case", cases(SCRIPTS, JOIN + LABEL))
def test_rank_that_joins_a_process_group_records_timeout_steps_and_groups(start_rank, case):
    case.check(start_rank)


JOINS = """
    import os
    import torch.distributed as dist, zmon
    number = int(os.environ["RANK"])
    VARIABLES
    zmon.attach()
    dist.init_process_group("gloo", init_method="file://STORE", rank=number, world_size=2)
"""
UNSET = "for name in ('RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'ZMON_JOB_ID'): os.environ.pop(name, None)"
COMPLAINT = "zmon: this is rank {} of 2, but it is watched as a job of one rank: "


@pytest.mark.parametrize(("variables", "line"), [(UNSET, COMPLAINT), ("", "")], ids=["unset", "set"])
def test_rank_complains_only_if_it_attached_before_it_had_its_number(start_rank, tmp_path, variables, line):
    script = JOINS.replace("VARIABLES", variables).replace("STORE", str(tmp_path / "store"))
    for number, rank in enumerate([start_rank(script, number, 2, GLOO_SOCKET_IFNAME="lo") for number in range(2)]):
        assert rank.wait() == 0
        assert rank.output.startswith(line.format(number))
        assert bool(rank.output) == bool(line)


class FakeBackend:
    """A backend of a process group, as far as its timeout is read."""

    def __init__(self, name, seconds):
        self.name = lambda: name
        if seconds is not None:
            self.options = SimpleNamespace(_timeout=timedelta(seconds=seconds))


def group_of(**timeouts):
    """Return a fake process group; `timeouts` are seconds by backend, or None for a backend without options."""
    backends = {name: FakeBackend(name, seconds) for name, seconds in timeouts.items()}  # each has a device of its name
    return SimpleNamespace(_device_types=list(backends), _get_backend=backends.__getitem__)


OFF = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
CASES = {  # a group and the environment → the timeout after which torch ends a hang, in seconds; "": unknown or none
    "NCCL": (group_of(nccl=600), {}, "600"),
    "NCCL and gloo": (group_of(nccl=600, gloo=1800), {}, "600"),
    "NCCL that does not handle errors": (group_of(nccl=600), OFF, ""),
    "NCCL whose ranks block and raise": (group_of(nccl=600), {**OFF, "TORCH_NCCL_BLOCKING_WAIT": "1"}, "600"),
    "gloo does not read the variables of NCCL": (group_of(gloo=1800), OFF, "1800"),
    "a backend that does not say its timeout": (group_of(other=None), {}, ""),
}


@pytest.mark.parametrize(("group", "env", "seconds"), CASES.values(), ids=CASES)
def test_timeout_of_a_group_is_that_of_the_backend_that_ends_a_hang(group, env, seconds):
    assert collective_timeout(group, env) == seconds
