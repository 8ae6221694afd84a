"""Tests of what a rank records when it joins a process group, such as the timeout after which torch ends a hang."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from zmon.probe.hooks.world import collective_timeout

SCRIPT = """
    import datetime
    import torch.distributed as dist, zmon
    from zmon import probe
    zmon.attach()
    def label():
        print(probe._identity.labels.get("collective_timeout_seconds"))
    def join(name, **timeout):
        dist.init_process_group("gloo", init_method=f"file://FOLDER/{name}", rank=0, world_size=1, **timeout)
        label()
        dist.destroy_process_group()
    label()
    join("default")
    join("set", timeout=datetime.timedelta(seconds=77.5))
"""


def test_rank_has_the_timeout_of_its_process_group_as_a_label(start_rank, tmp_path):
    rank = start_rank(SCRIPT.replace("FOLDER", str(tmp_path)))
    assert rank.wait() == 0
    assert rank.output.split() == ["None", "1800", "77.5"]


HEALS = """
    import torch, torch.distributed as dist, zmon
    from zmon import probe
    zmon.attach()
    def join(name):
        dist.init_process_group("gloo", init_method=f"file://FOLDER/{name}", rank=0, world_size=1)
    def train(number):
        for _ in range(number):
            with zmon.step():
                dist.all_reduce(torch.ones(1))
    def note():
        print(probe._identity.labels.get("steps_before_join"), probe.current.sequence(ALL_REDUCE, 0))
    from zmon.probe.rank import OP_NUMBER
    ALL_REDUCE = OP_NUMBER["all_reduce"]
    join("first")
    train(5)
    note()
    dist.destroy_process_group()
    note()
    join("second")
    train(2)
    note()
"""


def test_rank_that_joins_again_counts_its_collectives_from_0_and_notes_its_steps_before(start_rank, tmp_path):
    """A rank that has left its groups keeps its counts, which show afterwards who waited for whom."""
    rank = start_rank(HEALS.replace("FOLDER", str(tmp_path)))
    assert rank.wait() == 0
    assert rank.output.splitlines() == ["None 5", "None 5", "5 2"]


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


def group_of(**timeouts):
    """Return a fake process group; `timeouts` are seconds by backend, or None for a backend without options."""

    def backend(name, seconds):
        options = {} if seconds is None else {"options": SimpleNamespace(_timeout=timedelta(seconds=seconds))}
        return SimpleNamespace(name=lambda: name, **options)

    backends = {name: backend(name, seconds) for name, seconds in timeouts.items()}
    by_device = {"cpu": "gloo", "cuda": "nccl", "xpu": "other"}
    devices = [device for device, name in by_device.items() if name in backends]
    return SimpleNamespace(_device_types=devices, _get_backend=lambda device: _Hashed(backends[by_device[device]]))


class _Hashed:
    """A namespace that can be a member of a set, like a backend of torch."""

    def __init__(self, backend):
        self.__dict__.update(vars(backend))


OFF = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
CASES = {
    "NCCL": (group_of(nccl=600), {}, "600"),
    "NCCL and gloo": (group_of(nccl=600, gloo=1800), {}, "600"),
    "NCCL that does not handle errors": (group_of(nccl=600), OFF, ""),
    "NCCL whose ranks block and raise": (group_of(nccl=600), {**OFF, "TORCH_NCCL_BLOCKING_WAIT": "1"}, "600"),
    "gloo does not read the variables of NCCL": (group_of(gloo=1800), OFF, "1800"),
    "a backend that does not say its timeout": (group_of(other=None), {}, ""),
}


@pytest.mark.parametrize(("group", "env", "seconds"), CASES.values(), ids=CASES)
def test_timeout_of_a_group(group, env, seconds):
    assert collective_timeout(group, env) == seconds
