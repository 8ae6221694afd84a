"""Tests of the count of a step's operations: it equals counts by hand of real models, and is withheld if in doubt."""

import os
import subprocess
import sys

import pytest

from tests.probe.hooks.scripts import cases, run_script

STEPS = """
from torch.utils._python_dispatch import _get_current_dispatch_mode as mode
from torch.utils.flop_counter import FlopCounterMode

def run(step, number=20):
    for _ in range(number):
        step()

def source():
    return probe._identity.flops_source

def flops():
    return timeline.ledger.counted_flops

def dtypes():
    return probe._identity.flops_dtypes

def uncounted():
    return probe._identity.uncounted

def stepper(loss, parameters):
    # A step that computes this loss.
    optimizer = torch.optim.SGD(parameters, 0.01)
    def step():
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return step

def trainer_of(net, inputs):
    return stepper(lambda: net(inputs).float().sum(), net.parameters())

net, ones = nn.Linear(8, 8), torch.ones(2, 8)
small_step = trainer_of(net, ones)  # 2 · 2 · 8 · 8 operations in forward and as many in backward: 512

called = []
def backend(graph, inputs):
    def call(*args):
        called.append(1)
        return graph.forward(*args)
    return call
"""

CASES = """
== operations of a CNN are those of the count by hand
# The input needs no gradient, so the first convolution has one product in backward.
cnn = nn.Sequential(
    nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=2, dilation=2, groups=4),
    nn.ConvTranspose2d(16, 4, 2, stride=2), nn.Flatten(), nn.Linear(4 * 16 * 16, 10),
)
run(trainer_of(cnn, torch.randn(5, 3, 16, 16)))
first = 2 * 5 * 8 * 8 * 8 * 3 * 3 * 3
second = 2 * 5 * 8 * 8 * 16 * 2 * 3 * 3
transposed = 2 * 5 * 8 * 8 * 16 * 4 * 2 * 2
linear = 2 * 5 * 1024 * 10
print(source(), flops() - (2 * first + 3 * (second + transposed + linear)), dtypes(), repr(uncounted()))
> counted 0 {'float32': 1.0} ''

== operations of a transformer are within one percent of the count by hand
# A layer has 8 · D² weights in attention and feed-forward of width 2 · D, and two products of S × S scores.
B, S, D, H, LAYERS = 3, 32, 64, 4, 2
layer = lambda: nn.TransformerEncoderLayer(D, H, 2 * D, dropout=0.0, batch_first=True)
transformer = nn.Sequential(nn.Linear(D, D), *[layer() for _ in range(LAYERS)])
run(trainer_of(transformer, torch.randn(B, S, D)))
weights = 2 * B * S * 8 * D * D
scores = 2 * 2 * B * S * S * D
by_hand = LAYERS * (3 * weights + 3 * scores) + 2 * 2 * B * S * D * D
fused = LAYERS * scores // 2  # the kernel for CPUs computes the scores again in backward
print(source(), dtypes(), min(abs(flops() / by_hand - 1), abs(flops() / (by_hand + fused) - 1)) < 0.01)
> counted {'float32': 1.0} True

== narrow dtypes have their share
layers, inputs = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), torch.randn(8, 64)
def loss():
    with torch.autocast("cpu", torch.bfloat16):
        hidden = layers[0](inputs)
    return layers[1](hidden.float()).sum()
run(stepper(loss, layers.parameters()))
print(source(), flops() == 5 * 2 * 8 * 64 * 64, {name: round(share, 6) for name, share in dtypes().items()})
> counted True {'bfloat16': 0.4, 'float32': 0.6}

== compiled job keeps its compiled functions and must declare
# A function that ran in a dispatch mode would never be compiled again.
from torch._dynamo.utils import counters
step = trainer_of(torch.compile(nn.Sequential(net, nn.ReLU(), nn.Linear(8, 8)), backend=backend), ones)
run(step, 3)
print(counters["stats"]["unique_graphs"], len(called))
> 1 3
run(step, 10)
print(counters["stats"]["unique_graphs"], len(called))
> 1 13
print(repr(source()), uncounted())
> '' torch compiles this job: it must declare its operations with zmon.work(flops=…)

== function that the counted step ran can be compiled later
def product(x, w):
    return torch.relu(x @ w)
function, weight = [product], nn.Parameter(torch.randn(8, 8))
step = stepper(lambda: function[0](ones, weight).sum(), [weight])
run(step, 18)
function[0] = torch.compile(product, backend=backend)
run(step, 3)
print(source(), len(called))
> counted 3

== function that is compiled in the counted step stays compiled
function = [net]
step = stepper(lambda: function[0](ones).sum(), net.parameters())
run(step, 3)
function[0] = torch.compile(net, backend=backend)
run(step, 5)
print(len(called), repr(source()), uncounted())
> 5 '' torch compiles this job: it must declare its operations with zmon.work(flops=…)

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
print(source(), flops(), dtypes())
> declared 0 {'float32': 1.0}

== evaluation in the step delays the count
run(small_step, 3)
with zmon.activity("eval"):
    net(ones)
run(small_step)
print(source(), flops(), dtypes(), repr(uncounted()))
> counted 512 {'float32': 1.0} ''

== job that profiles itself sees all its calls
# A call that is dispatched again has two events.
os.environ["KINETO_LOG_LEVEL"] = "99"
with torch.profiler.profile() as own:
    run(small_step, 10)
print(source(), len([e for e in own.events() if e.name == "aten::addmm"]) >= 10)
> counted True

== mode of the job that begins in the counted step delays the count
run(small_step, 3)
with FlopCounterMode(display=False) as own:
    run(small_step, 1)
print(repr(source()), own.get_total_flops())
> '' 512
run(small_step, 4)
print(source(), flops(), mode())
> counted 512 None

== mode of the job that ends late keeps no mode of zmon
run(small_step, 3)
with FlopCounterMode(display=False):
    run(small_step, 9)
run(small_step, 2)
print(mode(), timeline.step - 1)
> None 14

== process that forks in the counted step is counted later
# A loader worker would inherit the mode, and all its work would be slow.
run(small_step, 3)
print(mode() is not None)
> True
worker = os.fork()
if not worker:
    os._exit(mode() is not None)
print(os.waitpid(worker, 0)[1])
> 0
run(small_step, 2)
print(source(), flops(), mode())
> counted 512 None

== job that trains in another thread is counted
in_thread(lambda: run(small_step))
print(source())
> counted

== forward in another thread is not left out
# torch.nn.DataParallel computes so.
def loss():
    losses = []
    in_thread(lambda: losses.append(net(ones).sum()))
    return losses[0]
run(stepper(loss, net.parameters()))
print(repr(source()), flops(), uncounted())
> '' 0 none of the steps 4 to 8 could be counted as a whole

== counted step is over before training has a lease of its own
# The counted step takes longer than others, and must not look like a stall.
from zmon.job.lease import Leases
from zmon.probe.hooks.flops import FIRST_STEP
run(small_step, FIRST_STEP)
print(source(), FIRST_STEP < Leases().learned_after_steps)
> counted True

== products of nested tensors are reported as uncounted
# They have no shape that could be read.
warnings.simplefilter("ignore")
weight = torch.ones(8, 8, requires_grad=True)
nested = torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)])
def step():
    with zmon.step():
        nn.functional.linear(nested, weight).to_padded_tensor(0.0).sum().backward()
run(step, 6)
print(timeline.step - 1, repr(source()))
> 6 ''
print("operations that zmon cannot count: aten::linear" in uncounted())
> True

== products of sparse matrices are not counted as dense
warnings.simplefilter("ignore")
matrix, weight = torch.eye(200).to_sparse_csr(), nn.Parameter(torch.ones(200, 64))
run(stepper(lambda: (matrix @ weight).sum(), [weight]), 6)
print(flops(), "aten::" in uncounted())
> 0 True

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
print(source(), flops())
> counted 512

== tracing in the counted step works and does not count
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
def step():
    with FakeTensorMode() as fake:
        (torch.empty(4, 4) @ fake.from_tensor(torch.ones(4, 4))).sum()
    make_fx(lambda a: (a @ a).sum(), tracing_mode="fake")(torch.ones(4, 4))
    torch.ones(9, 9, device="meta") @ torch.ones(9, 9, device="meta")
    small_step()
run(step, 6)
print(source(), flops())
> counted 512

== higher order operator in the counted step works and is reported as uncounted
from torch._higher_order_ops.out_dtype import out_dtype
def step():
    integers = torch.ones(4, 4, dtype=torch.int8)
    out_dtype(torch.ops.aten.mm.default, torch.int32, integers, integers)
    small_step()
run(step, 6)
print("higher_order::out_dtype" in uncounted())
> True

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
print(timeline.device is not None, source(), flops())
> True counted 512
"""

JOINED = """
== local shapes of a distributed tensor count
# A DTensor has the shape of the whole; a rank multiplies its part.
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.device_mesh import init_device_mesh
warnings.simplefilter("ignore")
mesh = init_device_mesh("cpu", (2,))
weight = nn.Parameter(distribute_tensor(torch.ones(8, 6), mesh, [Shard(1)]))
inputs = distribute_tensor(torch.ones(4, 8), mesh, [Replicate()])
run(stepper(lambda: (inputs @ weight).to_local().sum(), [weight]), 6)
print(flops() == 2 * 2 * 4 * 8 * 3)
> True
"""


@pytest.mark.parametrize("case", [*cases(CASES, STEPS), *cases(JOINED, STEPS, joined=True, num_ranks=2)])
def test_count(start_rank, case):
    case.check(start_rank)


def test_no_step_is_counted_with_zmon_flops_off(start_rank):
    script = "run(small_step)\nprint(repr(source()), flops(), dtypes(), repr(uncounted()))"
    before = 'import os\nos.environ["ZMON_FLOPS"] = "off"\n'
    assert run_script(start_rank, STEPS + script, before=before) == ["'' 0 {} ''"]


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
