"""Tests of the forward phase and of the samples in jobs, most of which load no batches with DataLoader."""

import pytest

from tests.probe.hooks.scripts import cases

LOOP = """
from torch.utils.data import DataLoader
from zmon.probe.hooks import forward
def samples():
    # Return the source of the samples, and their number so far.
    return timeline.ledger.samples.source, timeline.ledger._amounts[layout.SAMPLES]
class Notes(nn.Module):
    # The last layer, which notes the phase in which it is called.
    def forward(self, x):
        if not torch.compiler.is_compiling():
            phases.append(phase())
        return x
phases = []
model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1), Notes())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""

# Stand-ins for classes of two frameworks, with their calls of the model, of backward and of step.
ENGINE = """
class Engine(nn.Module):  # deepspeed.DeepSpeedEngine: wraps the model, and calls backward and step itself
    def __init__(self, module):
        super().__init__()
        self.module = module
    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)
    def backward(self, loss):
        loss.backward()
    def step(self):
        optimizer.step()
        optimizer.zero_grad()
class PipelineEngine(Engine):  # deepspeed.PipelineEngine: calls the forward of its base class
    def train_batch(self, batch):
        self.backward(super().forward(batch).sum())
        self.step()
class Pipeline:  # torchrec.TrainPipelineSparseDist: batches come from an iterator, one ahead
    def __init__(self, model):
        self.model, self.next = model, None
    def progress(self, batches):
        current, self.next = next(batches) if self.next is None else self.next, next(batches)
        if self.model.training:
            optimizer.zero_grad()
        self.model(current).sum().backward()
        optimizer.step()
"""
DDP = """
import inspect
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
plain = DistributedDataParallel.forward
model = DistributedDataParallel(model)
"""

CASES = """
== job with a loader gets no hook and its samples from the loader
for _ in range(2):
    for loaded in DataLoader(torch.ones(10, 2), 4):
        optimizer.zero_grad()
        model(loaded).sum().backward()
        optimizer.step()
print(set(phases), forward._searches, *samples(), steps())  # > {'forward'} 0 loader 20 6

== samples of a loader count in a job that marks its phases
for loaded in DataLoader(torch.ones(10, 2), 4):
    zmon.phase("forward")
    model(loaded).sum().backward()
    optimizer.step()
in_box = [probe._identity.samples_source]
zmon.work(samples=3)
print(*samples(), *in_box, probe._identity.samples_source)  # > declared 10 loader declared

== evaluation checkpointing and frozen models are not forward
from torch.utils.checkpoint import checkpoint
teacher = nn.Sequential(nn.Linear(2, 2), Notes()).requires_grad_(False)
inner = model[2]
model[2] = nn.Identity()
model.forward = lambda x: inner(checkpoint(model[1], model[0](x), use_reentrant=False))
train(times=4)
print(phases, *samples())  # > ['other', 'other', 'forward', 'forward'] model 8
phases.clear()
model.eval()
with torch.no_grad():
    teacher(batch), model(batch)
print(phases, activity())  # > ['other', 'other'] eval
model.train()
train()
phases.clear()
train()
print(phases, activity(), forward._searches)  # > ['forward'] train 1

== model at the address of another one that is gone is watched
short_lived = [nn.Linear(2, 1) for _ in range(20)]  # another object may take the address of some
for _ in range(3):
    short_lived[0](batch).sum().backward()
addresses = {id(module) for module in short_lived}
print({len(module._forward_pre_hooks) for module in short_lived})  # > {1}
del short_lived
later = next(module for module in [nn.Linear(2, 1) for _ in range(100)] if id(module) in addresses)
for _ in range(3):
    later(batch).sum().backward()
print(len(later._forward_pre_hooks))  # > 1

== compiled models are not compiled again by the hook
import torch._dynamo
torch._dynamo.config.error_on_recompile = True
whole = torch.compile(model, backend="eager")
loss = torch.compile(lambda x: model(x).sum(), backend="eager", fullgraph=True)
for call in (model, whole, loss):
    train(call, times=4)
torch._dynamo.config.error_on_recompile = False
loss(torch.ones(7, 2)).backward()
in_place = nn.Linear(2, 1)
in_place.compile(backend="eager")
train(in_place, times=4)
print(dict(torch._dynamo.utils.counters["graph_break"]), in_place._forward_pre_hooks, timeline.ledger.dropped)
> {} OrderedDict() 0

== copied saved and scripted models work as without zmon
model[2] = nn.Identity()
train(times=2)
assert len(forward._hooks) == 1
copied = copy.deepcopy(model)
stored = io.BytesIO()
torch.save(model, stored)
stored.seek(0)
loaded = torch.load(stored, weights_only=False)
same = bool((copied(batch) == model(batch)).all() and (loaded(batch) == model(batch)).all())
print(same, type(torch.jit.script(model)).__name__, len(forward._hooks), timeline.ledger.dropped)
> True RecursiveScriptModule 0 0

== export of a model with a hook keeps its dynamic size
small = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
optimizer = torch.optim.SGD(small.parameters(), 0.1)
train(small, times=4)
calls = timeline.ledger.samples._calls
sizes = ({0: torch.export.Dim("b")},)
exported = torch.export.export(small, (batch,), dynamic_shapes=sizes, strict=False)
(inputs,) = (node.meta["val"] for node in exported.graph.nodes if node.name == "input")
print(len(small._forward_pre_hooks), isinstance(inputs.shape[0], int), timeline.ledger.samples._calls - calls)
> 1 False 0
"""

CASES_WITH_ENGINE = """
== call of an engine is the forward phase
engine = Engine(model)
after = []
for _ in range(5):
    loss = engine(batch).sum()
    engine.backward(loss)
    after.append(phase())
    engine.step()
print(phases, after, len(forward._hooks), forward._searches, *samples())
> ['other', 'other', 'forward', 'forward', 'forward'] ['other', 'other', 'other', 'other', 'other'] 1 1 model 12
print(timeline.ledger.dropped, steps(), timeline.ledger.times[PHASES.index("forward")] > 0)  # > 0 5 True

== engine that calls its model directly is searched level by level
engine = PipelineEngine(model)
for _ in range(8):
    engine.train_batch(batch)
print(phases, [type(m).__name__ for m in engine.modules() if m._forward_pre_hooks], forward._searches)
> ['other', 'other', 'other', 'forward', 'forward', 'forward', 'forward', 'forward'] ['PipelineEngine', 'Sequential'] 2

== pipeline that prefetches its batches has a forward phase
pipeline, batches = Pipeline(model), iter([batch] * 9)
for _ in range(8):
    pipeline.progress(batches)
print(phases, *samples(), steps())
> ['other', 'other', 'forward', 'forward', 'forward', 'forward', 'forward', 'forward'] model 24 8
"""

CASES_WITH_DDP = """
== call of DDP is the forward phase without a hook on the module
train(times=5)
model(batch)
print(phases, len(model._forward_pre_hooks), *samples(), steps())
> ['other', 'other', 'forward', 'forward', 'forward', 'forward'] 0 model 12 5
inspected = inspect.signature(model.forward) == inspect.signature(plain.__get__(model))
forward.disarm()
print(inspected, DistributedDataParallel.forward is plain, timeline.ledger.dropped)  # > True True 0

== wrapper of the job around DDP stays
train(times=3)
watched = DistributedDataParallel.forward
def own(self, *args, **kwargs):
    return watched(self, *args, **kwargs)
DistributedDataParallel.forward = own
forward.disarm()
print(DistributedDataParallel.forward is own, model(batch).shape[0])  # > True 4

== input of DDP by keyword is counted
class Named(nn.Linear):
    def forward(self, *, x):
        return super().forward(x)
model = DistributedDataParallel(Named(2, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(5):
    model(x=batch).sum().backward()
    optimizer.step()
print(*samples(), steps(), timeline.ledger.dropped)  # > model 12 5 0

== compiled step has no more graph breaks than without zmon
import logging
import torch._dynamo
logging.disable()  # the compiler warns about a profiler's record
warnings.simplefilter("ignore")
def graph_breaks():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    loss = torch.compile(lambda x: model(x).sum(), backend="eager")
    for _ in range(3):
        loss(batch).backward()
    return sum(torch._dynamo.utils.counters["graph_break"].values())
train(times=4)
assert DistributedDataParallel.forward is not plain
watched = graph_breaks()
forward.disarm()
print(watched <= graph_breaks(), timeline.ledger.dropped)  # > True 0
"""


@pytest.mark.parametrize(
    "case", [*cases(CASES, LOOP), *cases(CASES_WITH_ENGINE, LOOP + ENGINE), *cases(CASES_WITH_DDP, LOOP + DDP)]
)
def test_forward_phase_and_samples_are_recognized_without_an_effect_on_the_job(start_rank, case):
    case.check(start_rank)
