"""Tests of the benchmark of overhead: what it computes from blocks, and that `absent` really is without zmon."""

import pytest

from bench.switching import MODES, costs

MICROSECOND = 1e-6


def results(extra, rounds=40):
    """Return what a rank writes whose steps take 1,000 µs, and in each mode so many µs more."""
    order = [*MODES, *reversed(MODES)] * (rounds // 2)
    blocks = [
        {"mode": mode, "wall": (1000 + 2 * extra.get(mode, 0)) * MICROSECOND,
         "processor": (900 + extra.get(mode, 0) + number % 4) * MICROSECOND, "reported": 20 * MICROSECOND}
        for number, mode in enumerate(order)
    ]  # fmt: skip
    return {"blocks": blocks}


def test_cost_is_the_difference_from_neighbouring_blocks_without_zmon():
    first, second = costs([results({"watched": 30, "idle": 5}), results({"watched": 10})])
    assert (first.rank, second.rank) == (0, 1)
    assert first.step == pytest.approx(1000 * MICROSECOND)
    assert first.processor.value == pytest.approx(30 * MICROSECOND, abs=3 * MICROSECOND)
    assert first.processor.low <= first.processor.value <= first.processor.high
    assert first.processor_floor.value == pytest.approx(0, abs=2 * MICROSECOND)
    assert first.wall.value == pytest.approx(60 * MICROSECOND)
    assert first.wall_floor.value == pytest.approx(0)
    assert first.idle.value == pytest.approx(5 * MICROSECOND, abs=3 * MICROSECOND)
    assert first.reported == pytest.approx(20 * MICROSECOND)
    assert second.processor.value == pytest.approx(10 * MICROSECOND, abs=3 * MICROSECOND)


def test_switch_leaves_nothing_of_zmon_and_brings_all_back(start_rank):
    script = """
import os, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from bench.switch import Switch, _names, _hooks_of, _is_ours, _OPTIMIZER_HOOKS
plain = _names()
switch = Switch()
dist.init_process_group(
    "gloo", init_method="file://" + os.path.dirname(sys.argv[0]) + "/store", rank=0, world_size=1
)

def changed():
    now = _names()
    names = [key for key, value in plain.items() if now.get(key) is not value and callable(value)]
    return [name for owner, name in names if owner is not sys]  # torch.distributed has an excepthook of its own

def hooks():
    return sum(_is_ours(hook) for each in [*_hooks_of(model), *_OPTIMIZER_HOOKS] for hook in each.values())

def steps():
    return switch._timeline.ledger._numbers[layout.STEPS]

def step():
    optimizer.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()

from zmon.box import layout
model = DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(10):
    step()
switch.settle(model)
with_zmon, num_hooks, num_steps = changed(), hooks(), steps()
switch.to("absent")
step()
print(changed(), hooks(), steps() - num_steps)
switch.to("watched")
step()
print(len(with_zmon) > 30, changed() == with_zmon, hooks() == num_hooks > 2, steps() - num_steps)
dist.destroy_process_group()
"""
    rank = start_rank(script, 0, 1, GLOO_SOCKET_IFNAME="lo")
    assert rank.wait(40) == 0, rank.output
    assert rank.output.splitlines() == ["[] 0 0", "True True True 1"]
