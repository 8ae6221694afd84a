"""Tests of the count of one step's operations: real models against counts by hand, and what must not be counted."""

import os
import subprocess
import sys

from tests.probe.hooks.scripts import run_script

STEPS = """
def run(step, number=20):
    for _ in range(number):
        step()

def counted():
    identity = probe._identity
    return identity.flops_source, timeline.ledger.counted_flops, identity.flops_dtypes, identity.uncounted

def trainer_of(net, inputs):
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    def step():
        optimizer.zero_grad()
        net(inputs).float().sum().backward()
        optimizer.step()
    return step
"""


def test_operations_of_a_cnn_are_those_of_the_count_by_hand(start_rank):
    """The input needs no gradient, so the first convolution has one product in backward."""
    script = """
net = nn.Sequential(
    nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=2, dilation=2, groups=4),
    nn.ConvTranspose2d(16, 4, 2, stride=2), nn.Flatten(), nn.Linear(4 * 16 * 16, 10),
)
run(trainer_of(net, torch.randn(5, 3, 16, 16)))
first = 2 * 5 * 8 * 8 * 8 * 3 * 3 * 3
second = 2 * 5 * 8 * 8 * 16 * 2 * 3 * 3
transposed = 2 * 5 * 8 * 8 * 16 * 4 * 2 * 2
linear = 2 * 5 * 1024 * 10
print(counted() == ("counted", 2 * first + 3 * (second + transposed + linear), {"float32": 1.0}, ""), *counted())
"""
    (line,) = run_script(start_rank, STEPS + script)
    assert line.startswith("True"), line


def test_operations_of_a_transformer_are_within_one_percent_of_the_count_by_hand(start_rank):
    """A layer has 8 · D² weights in attention and feed-forward of width 2 · D, and two products of S × S scores."""
    script = """
B, S, D, H, LAYERS = 3, 32, 64, 4, 2
layer = lambda: nn.TransformerEncoderLayer(D, H, 2 * D, dropout=0.0, batch_first=True)
net = nn.Sequential(nn.Linear(D, D), *[layer() for _ in range(LAYERS)])
run(trainer_of(net, torch.randn(B, S, D)))
weights = 2 * B * S * 8 * D * D
scores = 2 * 2 * B * S * S * D
by_hand = LAYERS * (3 * weights + 3 * scores) + 2 * 2 * B * S * D * D
fused = LAYERS * scores // 2  # the kernel for CPUs computes the scores again in backward
source, flops, dtypes, uncounted = counted()
print(source, dtypes, abs(flops / by_hand - 1) < 0.01 or abs(flops / (by_hand + fused) - 1) < 0.01, flops, by_hand)
"""
    (line,) = run_script(start_rank, STEPS + script)
    assert line.startswith("counted {'float32': 1.0} True"), line


def test_narrow_dtypes_have_their_share(start_rank):
    script = """
net = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
inputs = torch.randn(8, 64)
def step():
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        hidden = net[0](inputs)
    net[1](hidden.float()).sum().backward()
    optimizer.step()
run(step)
source, flops, dtypes, _ = counted()
print(source, flops == 5 * 2 * 8 * 64 * 64, {name: round(share, 6) for name, share in dtypes.items()})
"""
    assert run_script(start_rank, STEPS + script) == ["counted True {'bfloat16': 0.4, 'float32': 0.6}"]


def test_compiled_job_keeps_its_compiled_functions_and_must_declare(start_rank):
    """A function that ran in a dispatch mode would never be compiled again."""
    script = """
from torch._dynamo.utils import counters
net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
runs = []
def backend(graph, inputs):
    def call(*args):
        runs.append(1)
        return graph.forward(*args)
    return call
step = trainer_of(torch.compile(net, backend=backend), torch.randn(16, 64))
run(step, 3)
before = counters["stats"]["unique_graphs"], len(runs)
run(step, 10)
print(before, counters["stats"]["unique_graphs"], len(runs))
print(counted()[0] == "", counted()[3])
"""
    expected = ["(1, 3) 1 13", "True torch compiles this job: it must declare its operations with zmon.work(flops=…)"]
    assert run_script(start_rank, STEPS + script) == expected


def test_function_that_the_counted_step_ran_can_be_compiled_later(start_rank):
    script = """
def product(x, w):
    return torch.relu(x @ w)
weight = nn.Parameter(torch.randn(8, 8))
optimizer = torch.optim.SGD([weight], 0.01)
inputs = torch.randn(4, 8)
function = [product]
def step():
    optimizer.zero_grad()
    function[0](inputs, weight).sum().backward()
    optimizer.step()
run(step, 18)
compilations = []
def backend(graph, inputs):
    compilations.append(graph)
    return graph.forward
function[0] = torch.compile(product, backend=backend)
run(step, 3)
print(counted()[0], len(compilations))
"""
    assert run_script(start_rank, STEPS + script) == ["counted 1"]


def test_count_is_withheld_if_a_library_does_much_of_the_step(start_rank):
    script = """
library = torch.library.Library("mine", "FRAGMENT")
library.define("slow(Tensor x) -> Tensor")
def slow(x):
    time.sleep(0.02)
    return x.clone()
library.impl("slow", slow, "CompositeExplicitAutograd")
net = nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
def step():
    optimizer.zero_grad()
    torch.ops.mine.slow(torch.ones(2, 8))
    net(torch.ones(2, 8)).sum().backward()
    optimizer.step()
run(step)
source, flops, _, uncounted = counted()
print(repr(source), flops, uncounted.partition("% ")[2])
"""
    expected = "'' 0 of a step is in operations that zmon cannot count: mine::slow"
    assert run_script(start_rank, STEPS + script) == [expected]


def test_job_that_declares_its_operations_is_not_counted(start_rank):
    script = """
def step():
    train()
    zmon.work(flops=1000, dtype="float32")
run(step)
print(*counted()[:3])
"""
    assert run_script(start_rank, STEPS + script) == ["declared 0 {'float32': 1.0}"]


def test_evaluation_in_the_step_delays_the_count(start_rank):
    script = """
net = nn.Linear(8, 8)
step = trainer_of(net, torch.ones(2, 8))
for number in range(1, 21):
    if number == 4:
        with zmon.activity("eval"):
            net(torch.ones(2, 8))
    step()
print(counted()[:2] == ("counted", 2 * 2 * 2 * 8 * 8), *counted())
"""
    (line,) = run_script(start_rank, STEPS + script)
    assert line.startswith("True"), line


def test_job_that_profiles_itself_sees_all_its_calls(start_rank):
    script = """
step = trainer_of(nn.Linear(8, 8), torch.ones(2, 8))
os.environ["KINETO_LOG_LEVEL"] = "99"
with torch.profiler.profile() as own:
    run(step, 10)
print(counted()[0], len([e for e in own.events() if e.name == "aten::addmm"]))
"""
    source, number = run_script(start_rank, STEPS + script)[-1].split()
    assert source == "counted"
    assert int(number) >= 10  # a call that is dispatched again has two events


def test_mode_of_the_job_that_begins_in_the_counted_step_delays_the_count(start_rank):
    script = """
from torch.utils.flop_counter import FlopCounterMode
step = trainer_of(nn.Linear(8, 8), torch.ones(2, 8))
run(step, 3)
with FlopCounterMode(display=False) as own:
    run(step, 1)
print(counted()[0] == "", own.get_total_flops())
run(step, 4)
from torch.utils._python_dispatch import _get_current_dispatch_mode
print(*counted()[:2], _get_current_dispatch_mode())
"""
    assert run_script(start_rank, STEPS + script) == ["True 512", "counted 512 None"]


def test_local_shapes_of_a_distributed_tensor_count(start_rank):
    """A DTensor has the shape of the whole; a rank multiplies its part."""
    script = """
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2,))
weight = nn.Parameter(distribute_tensor(torch.ones(8, 6), mesh, [Shard(1)]))
inputs = distribute_tensor(torch.ones(4, 8), mesh, [Replicate()])
optimizer = torch.optim.SGD([weight], 0.01)
def step():
    optimizer.zero_grad()
    (inputs @ weight).to_local().sum().backward()
    optimizer.step()
run(step, 6)
print(counted()[1])
"""
    lines = run_script(start_rank, STEPS + script, joined=True, ranks=2)
    assert [of_rank[-1] for of_rank in lines] == [str(2 * 2 * 4 * 8 * 3)] * 2


def test_no_step_is_counted_with_zmon_flops_off(start_rank):
    script = "run(trainer_of(nn.Linear(8, 8), torch.ones(2, 8)))\nprint(counted())"
    before = 'import os\nos.environ["ZMON_FLOPS"] = "off"\n'
    assert run_script(start_rank, STEPS + script, before=before) == ["('', 0, {}, '')"]


def test_process_that_forks_in_the_counted_step_is_counted_later(start_rank):
    """A loader worker would inherit the mode, and all its work would be slow."""
    script = """
from torch.utils._python_dispatch import _get_current_dispatch_mode
step = trainer_of(nn.Linear(8, 8), torch.ones(2, 8))
run(step, 3)
print(_get_current_dispatch_mode() is not None)
worker = os.fork()
if not worker:
    os._exit(_get_current_dispatch_mode() is not None)
print(os.waitpid(worker, 0)[1])
run(step, 2)
print(counted()[:2] == ("counted", 2 * 2 * 2 * 8 * 8), _get_current_dispatch_mode())
"""
    assert run_script(start_rank, STEPS + script) == ["True", "0", "True None"]


def test_job_that_trains_in_another_thread_is_counted(start_rank):
    script = """
import threading
thread = threading.Thread(target=run, args=[trainer_of(nn.Linear(8, 8), torch.ones(2, 8))])
thread.start()
thread.join()
print(counted()[0])
"""
    assert run_script(start_rank, STEPS + script) == ["counted"]


def test_counted_step_is_over_before_training_has_a_lease_of_its_own(start_rank):
    """The counted step takes longer, which must be no stall."""
    script = """
from zmon.job.lease import Leases
from zmon.probe.hooks.flops import FIRST_STEP
step = trainer_of(nn.Linear(8, 8), torch.ones(2, 8))
run(step, FIRST_STEP)
print(counted()[0], FIRST_STEP < Leases().learned_after_steps)
"""
    assert run_script(start_rank, STEPS + script) == ["counted True"]


def test_job_that_never_compiles_does_not_import_the_compiler(tmp_path):
    """To import it takes a second or more, and the user may not be allowed to read its files."""
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


def test_function_that_is_compiled_in_the_counted_step_stays_compiled(start_rank):
    script = """
calls = []
def backend(graph, inputs):
    def call(*args):
        calls.append(1)
        return graph.forward(*args)
    return call
net = nn.Linear(8, 8)
function = [net]
optimizer = torch.optim.SGD(net.parameters(), 0.01)
def step():
    optimizer.zero_grad()
    function[0](torch.ones(2, 8)).sum().backward()
    optimizer.step()
run(step, 3)
function[0] = torch.compile(net, backend=backend)
run(step, 5)
print(len(calls), counted()[0] == "", counted()[3])
"""
    expected = "5 True torch compiles this job: it must declare its operations with zmon.work(flops=…)"
    assert run_script(start_rank, STEPS + script) == [expected]


def test_products_of_nested_tensors_are_told_as_uncounted(start_rank):
    """They have no shape that could be read."""
    script = """
import warnings
warnings.simplefilter("ignore")
weight = torch.ones(8, 8, requires_grad=True)
nested = torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)])
def step():
    with zmon.step():
        nn.functional.linear(nested, weight).to_padded_tensor(0.0).sum().backward()
run(step, 6)
print(timeline.step - 1, counted()[0] == "", counted()[3])
"""
    (line,) = run_script(start_rank, STEPS + script)
    assert line.startswith("6 True "), line
    assert "operations that zmon cannot count: aten::linear" in line


def test_step_that_fails_and_is_tried_again_is_not_counted_twice(start_rank):
    script = """
train = trainer_of(nn.Linear(8, 8), torch.ones(2, 8))
def step(fails):
    with zmon.step():
        train()
        if fails:
            raise MemoryError
for number in range(1, 10):
    if number == 4:
        try:
            step(True)
        except MemoryError:
            pass
    step(False)
print(counted()[:2])
"""
    assert run_script(start_rank, STEPS + script) == ["('counted', 512)"]


def test_forward_in_another_thread_is_not_left_out(start_rank):
    """torch.nn.DataParallel computes so."""
    script = """
import threading
net = nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
def step():
    optimizer.zero_grad()
    losses = []
    thread = threading.Thread(target=lambda: losses.append(net(torch.ones(2, 8)).sum()))
    thread.start()
    thread.join()
    losses[0].backward()
    optimizer.step()
run(step)
print(counted()[:2], counted()[3])
"""
    expected = "('', 0) none of the steps 4 to 8 could be counted as a whole"
    assert run_script(start_rank, STEPS + script) == [expected]


def test_mode_of_the_job_that_ends_late_keeps_no_mode_of_zmon(start_rank):
    script = """
from torch.utils.flop_counter import FlopCounterMode
from torch.utils._python_dispatch import _get_current_dispatch_mode
step = trainer_of(nn.Linear(8, 8), torch.ones(2, 8))
run(step, 3)
with FlopCounterMode(display=False):
    run(step, 9)
run(step, 2)
print(_get_current_dispatch_mode(), timeline.step - 1)
"""
    assert run_script(start_rank, STEPS + script) == ["None 14"]


def test_tracing_in_the_counted_step_works_and_does_not_count(start_rank):
    script = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
train = trainer_of(nn.Linear(8, 8), torch.ones(2, 8))
def step():
    with FakeTensorMode() as fake:
        (torch.empty(4, 4) @ fake.from_tensor(torch.ones(4, 4))).sum()
    make_fx(lambda a: (a @ a).sum(), tracing_mode="fake")(torch.ones(4, 4))
    torch.ones(9, 9, device="meta") @ torch.ones(9, 9, device="meta")
    train()
run(step, 6)
print(counted()[:2])
"""
    assert run_script(start_rank, STEPS + script) == ["('counted', 512)"]


def test_higher_order_operator_in_the_counted_step_works_and_is_told(start_rank):
    script = """
from torch._higher_order_ops.out_dtype import out_dtype
train = trainer_of(nn.Linear(8, 8), torch.ones(2, 8))
def step():
    ones = torch.ones(4, 4, dtype=torch.int8)
    out_dtype(torch.ops.aten.mm.default, torch.int32, ones, ones)
    train()
run(step, 6)
print("higher_order::out_dtype" in counted()[3])
"""
    assert run_script(start_rank, STEPS + script) == ["True"]


def test_products_of_sparse_matrices_are_not_counted_as_dense(start_rank):
    script = """
matrix = torch.eye(200).to_sparse_csr()
weight = nn.Parameter(torch.ones(200, 64))
optimizer = torch.optim.SGD([weight], 0.01)
def step():
    optimizer.zero_grad()
    (matrix @ weight).sum().backward()
    optimizer.step()
run(step, 6)
print(timeline.ledger.counted_flops, "aten::" in counted()[3])
"""
    assert run_script(start_rank, STEPS + script)[-1] == "0 True"


def test_step_that_the_device_does_late_is_the_fourth_of_the_host(start_rank):
    """With times of the device, boundaries are written some steps later."""
    script = """
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
net = nn.Linear(8, 8)
train = trainer_of(net, torch.ones(2, 8))
for number in range(1, 14):
    before = now[0]
    with zmon.step():
        zmon.phase("forward")
        if number == 4:
            with zmon.activity("eval"):
                for _ in range(5):
                    net(torch.ones(2, 8))
            zmon.phase("forward")
        train()
        zmon.phase("optimizer")
    done[0] = before  # one step behind
print(timeline.device is not None, counted()[:2])
"""
    assert run_script(start_rank, STEPS + script) == ["True ('counted', 512)"]
