"""Tests of the mode that counts operations: its counts equal those by hand, and it does not disturb the job."""

import pytest

from tests.probe.hooks.scripts import COUNTED, cases

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

== function that the counted step ran can be compiled later
def product(x, w):
    return torch.relu(x @ w)
function, weight = [product], nn.Parameter(torch.randn(8, 8))
step = stepper(lambda: function[0](ones, weight).sum(), [weight])
run(step, 18)
function[0] = torch.compile(product, backend=backend)
run(step, 3)
print(source(), len(called))  # > counted 3

== function that is compiled in the counted step stays compiled
function = [net]
step = stepper(lambda: function[0](ones).sum(), net.parameters())
run(step, 3)
function[0] = torch.compile(net, backend=backend)
run(step, 5)
print(len(called), repr(source()), uncounted())
> 5 '' torch compiles this job: it must declare its operations with zmon.work(flops=…)

== job that profiles itself sees all its calls
# A call that is dispatched again has two events.
os.environ["KINETO_LOG_LEVEL"] = "99"
with torch.profiler.profile() as own:
    run(small_step, 10)
print(source(), len([e for e in own.events() if e.name == "aten::addmm"]) >= 10)  # > counted True

== mode of the job that begins in the counted step delays the count
run(small_step, 3)
with FlopCounterMode(display=False) as own:
    run(small_step, 1)
print(repr(source()), own.get_total_flops())  # > '' 512
run(small_step, 4)
print(source(), flops(), mode())  # > counted 512 None

== mode of the job that ends late keeps no mode of zmon
run(small_step, 3)
with FlopCounterMode(display=False):
    run(small_step, 9)
run(small_step, 2)
print(mode(), timeline.step - 1)  # > None 14

== forward in another thread is not left out
# torch.nn.DataParallel computes so.
def loss():
    losses = []
    in_thread(lambda: losses.append(net(ones).sum()))
    return losses[0]
run(stepper(loss, net.parameters()))
print(repr(source()), flops(), uncounted())  # > '' 0 none of the steps 4 to 8 could be counted as a whole

== products of nested tensors are reported as uncounted
# They have no shape that could be read.
warnings.simplefilter("ignore")
weight = torch.ones(8, 8, requires_grad=True)
nested = torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)])
def step():
    with zmon.step():
        nn.functional.linear(nested, weight).to_padded_tensor(0.0).sum().backward()
run(step, 6)
print(timeline.step - 1, repr(source()))  # > 6 ''
print("operations that zmon cannot count: aten::linear" in uncounted())  # > True

== products of sparse matrices are not counted as dense
warnings.simplefilter("ignore")
matrix, weight = torch.eye(200).to_sparse_csr(), nn.Parameter(torch.ones(200, 64))
run(stepper(lambda: (matrix @ weight).sum(), [weight]), 6)
print(flops(), "aten::" in uncounted())  # > 0 True

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
print(source(), flops())  # > counted 512

== higher order operator in the counted step works and is reported as uncounted
from torch._higher_order_ops.out_dtype import out_dtype
def step():
    integers = torch.ones(4, 4, dtype=torch.int8)
    out_dtype(torch.ops.aten.mm.default, torch.int32, integers, integers)
    small_step()
run(step, 6)
print("higher_order::out_dtype" in uncounted())  # > True
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
print(flops() == 2 * 2 * 4 * 8 * 3)  # > True
"""


@pytest.mark.parametrize("case", [*cases(CASES, COUNTED), *cases(JOINED, COUNTED, joined=True, num_ranks=2)])
def test_operations_equal_the_count_by_hand_and_the_job_is_not_disturbed(start_rank, case):
    case.check(start_rank)
