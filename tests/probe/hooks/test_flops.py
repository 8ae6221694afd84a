"""Tests of the count of a step's operations: which step is counted, and when the count is withheld."""

import os
import subprocess
import sys

import pytest

from tests.probe.hooks.scripts import COUNTED, cases, run_script

CASES = """
== compiled job keeps its compiled functions and must declare
# A function that ran in a dispatch mode would never be compiled again.
from torch._dynamo.utils import counters
step = trainer_of(torch.compile(nn.Sequential(net, nn.ReLU(), nn.Linear(8, 8)), backend=backend), ones)
run(step, 3)
print(counters["stats"]["unique_graphs"], len(called))  # > 1 3
run(step, 10)
print(counters["stats"]["unique_graphs"], len(called))  # > 1 13
print(repr(source()), uncounted())
> '' torch compiles this job: it must declare its operations with zmon.work(flops=…)

== count is withheld if a library does much of the step
library = torch.library.Library("mine", "FRAGMENT")
library.define("slow(Tensor x) -> Tensor")
def slow(x):
    time.sleep(0.02)
    return x.clone()
library.impl("slow", slow, "CompositeExplicitAutograd")
def loss():
    torch.ops.mine.slow(ones)
    return net(ones).sum()
run(stepper(loss, net.parameters()))
print(repr(source()), flops(), uncounted().partition("% ")[2])
> '' 0 of a step is in operations that zmon cannot count: mine::slow

== job that declares its operations is not counted
def step():
    train()
    zmon.work(flops=1000, dtype="float32")
run(step)
print(source(), flops(), dtypes())  # > declared 0 {'float32': 1.0}

== evaluation in the step delays the count
run(small_step, 3)
with zmon.activity("eval"):
    net(ones)
run(small_step)
print(source(), flops(), dtypes(), repr(uncounted()))  # > counted 512 {'float32': 1.0} ''

== process that forks in the counted step is counted later
# A loader worker would inherit the mode, and all its work would be slow.
run(small_step, 3)
print(mode() is not None)  # > True
worker = os.fork()
if not worker:
    os._exit(mode() is not None)
print(os.waitpid(worker, 0)[1])  # > 0
run(small_step, 2)
print(source(), flops(), mode())  # > counted 512 None

== job that trains in another thread is counted
in_thread(lambda: run(small_step))
print(source())  # > counted

== counted step is over before training has a lease of its own
# The counted step takes longer than others, and must not look like a stall.
from zmon.job.lease import Leases
from zmon.probe.hooks.flops import FIRST_STEP
run(small_step, FIRST_STEP)
print(source(), FIRST_STEP < Leases().learned_after_steps)  # > counted True

== step that fails and is tried again is not counted twice
def step(fails):
    with zmon.step():
        small_step()
        if fails:
            raise MemoryError
for number in range(1, 10):
    if number == 4:
        try:
            step(True)
        except MemoryError:
            pass
    step(False)
print(source(), flops())  # > counted 512

== step that the device does late is the fourth of the host
# With times of the device, boundaries are written some steps later.
from zmon.probe.device_time import DeviceTime
done, now = [0], [0]
class Event:
    def record(self):
        now[0] += 1
        self.time = now[0]
    def query(self):
        return self.time <= done[0]
    def elapsed_time(self, end):
        return float(end.time - self.time)
timeline.make_device_time = lambda: DeviceTime(Event, lambda: True)
for number in range(1, 14):
    before = now[0]
    with zmon.step():
        zmon.phase("forward")
        if number == 4:
            with zmon.activity("eval"):
                for _ in range(5):
                    net(ones)
            zmon.phase("forward")
        small_step()
        zmon.phase("optimizer")
    done[0] = before  # one step behind
print(timeline.device is not None, source(), flops())  # > True counted 512
"""


@pytest.mark.parametrize("case", cases(CASES, COUNTED))
def test_one_whole_step_is_counted_or_the_count_is_withheld(start_rank, case):
    case.check(start_rank)


def test_no_step_is_counted_with_zmon_flops_off(start_rank):
    script = "run(small_step)\nprint(repr(source()), flops(), dtypes(), repr(uncounted()))"
    before = 'import os\nos.environ["ZMON_FLOPS"] = "off"\n'
    assert run_script(start_rank, COUNTED + script, before=before) == ["'' 0 {} ''"]


def test_job_that_never_compiles_does_not_import_the_compiler(tmp_path):
    """The import of the compiler takes a second or more, and the user may not be allowed to read its files."""
    script = """
import sys, torch, zmon
assert zmon.attach("tiny")
weight = torch.ones(8, 8, requires_grad=True)
for _ in range(6):
    with zmon.step():
        (torch.ones(2, 8) @ weight).sum().backward()
from zmon import probe
print(probe._identity.flops_source, "torch._dynamo" in sys.modules)
"""
    env = {**os.environ, "ZMON_BOX_DIR": str(tmp_path), "RANK": "0", "WORLD_SIZE": "1"}
    ended = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "counted False\n", ended
