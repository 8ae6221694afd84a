"""Tests of the hook for saving. A save to a file is a checkpoint, which lasts until the rank trains again."""

import pytest

from tests.probe.hooks.scripts import cases

SAVED = """
import importlib, pathlib
from zmon.box.reader import BoxReader
FOLDER = os.path.dirname(sys.argv[0])
FILE = FOLDER + '/model.pt'
reader = BoxReader(timeline.box.path)  # never closed: that would release the lock of the box
def saved():
    # Return the activity, and True if the box has a checkpoint.
    return activity(), reader.last_boundary()[layout.LAST_CHECKPOINT] > 0
"""

CASES = """
== saving is a checkpoint if it is to a file, after the first step and not in an activity that the job marks
torch.save(model, FILE)
print(*saved())  # > init False
train()
torch.save(model, io.BytesIO())
print(*saved())  # > train False
try:
    torch.save(model, '/no/such/place')
except Exception:
    print(saved()[1])  # > False
train()
with zmon.activity('eval'):
    torch.save(model, os.devnull)
    print(activity())  # > eval
for save in (lambda: torch.save(model, FILE), lambda: torch.save(model, open(FILE, 'wb')),
             lambda: torch.save(model, f=FILE)):
    train()
    save()
    print(*saved(), steps())
> checkpoint True 3
> checkpoint True 4
> checkpoint True 5
train()
print(activity(), steps())  # > train 6

== file that another thread has saved is a checkpoint from the next boundary on, and changes no activity
def save(file):
    in_thread(lambda: torch.save(model, file))
    print(*saved())
save(FILE)
train()
print(*saved())
> init False
> train False
save(io.BytesIO())
train()
print(*saved())
> train False
> train False
with zmon.activity('eval'):
    save(FILE)
print(*saved())
> eval False
> train True

== several files are one checkpoint, whose time begins with the first
train()
torch.save(model, FILE)
begin = reader.now().activity_since
torch.save(model, FILE)
print(reader.now().activity_since == begin, activity())  # > True checkpoint

== model saved in eval mode contains nothing of zmon
# The file must load in an environment without zmon.
train()
model.eval()
file = io.BytesIO()
torch.save(model, file)
print(b"zmon" in file.getvalue(), b"zmon" in pickle.dumps(model))  # > False False
file.seek(0)
loaded = torch.load(file, weights_only=False)
with torch.no_grad():
    print(torch.equal(loaded(batch), copy.deepcopy(model)(batch)), activity())  # > True train
    model(batch)
print(activity())  # > eval
print(any(b"zmon" in pickle.dumps(thing) for thing in (optimizer, model.state_dict(), torch.save)))  # > False

== distributed checkpoint is recognized with any import
train()
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import save
from torch.distributed.checkpoint.state_dict_saver import save as same
print(save is same is dcp.save, hasattr(save, "__zmon__"))  # > True True
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    save(model.state_dict(), checkpoint_id=FOLDER + "/dcp", no_dist=True)
print(activity())  # > checkpoint

== checkpoint that is written in the background counts once it is complete
from concurrent.futures import Future
from types import SimpleNamespace
sys.path.insert(0, FOLDER)
file = pathlib.Path(FOLDER, "safetensors/torch.py")
file.parent.mkdir()
file.write_text("def save_file(result): return result")
save_file = importlib.import_module("safetensors.torch").save_file
written, failed, given_up = Future(), Future(), Future()
train()
print(save_file(written) is written, *saved())  # > True checkpoint False
for future in (failed, given_up):
    save_file(future)
failed.set_exception(OSError("no space left"))
given_up.cancel()
train()
print(*saved())  # > train False
written.set_result(None)
train()
print(*saved())  # > train True
save_file(SimpleNamespace(staging_completion=Future(), upload_completion=failed))
print(activity())  # > checkpoint

== async_save of torch counts once it has written its files
train()
import torch.distributed.checkpoint as dcp
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    written = dcp.async_save(model.state_dict(), checkpoint_id=FOLDER + "/dcp")
    written.result()
print(activity(), os.path.exists(FOLDER + "/dcp/.metadata"))  # > checkpoint True
train()
print(*saved())  # > train True

== functions of other libraries that write files are checkpoints, with any import
sys.path.insert(0, FOLDER)
from zmon.probe.hooks.saving import _SAVERS
results = set()
for name, savers in _SAVERS.items():
    if name.startswith("torch."):
        continue
    file = pathlib.Path(FOLDER, *name.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"def {saver}(tensors, path): return path\\n" for saver in savers))
    module = importlib.import_module(name)
    for saver in savers:
        train()
        results.add((getattr(module, saver)({}, "file"), *saved()))
print(results)  # > {('file', 'checkpoint', True)}
"""


@pytest.mark.parametrize("case", cases(CASES, SAVED))
def test_save_to_a_file_is_a_checkpoint(start_rank, case):
    case.check(start_rank)
