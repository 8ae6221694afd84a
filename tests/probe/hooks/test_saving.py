"""Tests of the hook for saving. A save to a file is a checkpoint, which lasts as long as the call."""

import pytest

from tests.probe.hooks.scripts import cases

SAVED = """
import importlib, pathlib
from zmon.box.reader import BoxReader
FOLDER = os.path.dirname(sys.argv[0])
FILE = FOLDER + '/model.pt'
reader = BoxReader(timeline.box.path)  # never closed: that would let go of the lock of the box
class Noted:
    # Notes the activity of the rank while it is saved.
    def __reduce__(self):
        during.append(activity())
        return int, ()
during = []
def saved():
    # Return the activity during the save and after it, and True if the box has a checkpoint.
    return during.pop() if during else '-', activity(), reader.last_boundary()[layout.LAST_CHECKPOINT] > 0
"""

CASES = """
== saving is a checkpoint if it is to a file, after the first step and not in an activity that the job marks
noted = Noted()
torch.save(noted, FILE)
print(*saved())
> init init False
train()
torch.save(noted, io.BytesIO())
print(*saved())
> train train False
try:
    torch.save(noted, '/no/such/place')
except Exception:
    print(*saved())
> - train False
train()
with zmon.activity('eval'):
    torch.save(noted, os.devnull)
    print(*saved())
> eval eval False
for save in (lambda: torch.save(noted, FILE), lambda: torch.save(noted, open(FILE, 'wb')),
             lambda: torch.save(noted, f=FILE)):
    train()
    save()
    print(*saved(), steps())
> checkpoint train True 3
> checkpoint train True 4
> checkpoint train True 5
train()
print(activity(), steps())
> train 6

== rank goes on after a save with what it did before
train()
zmon.phase('data')
torch.save({}, FILE)
print(activity(), phase())
> train data
model.eval()
with torch.no_grad():
    model(batch)
torch.save({}, FILE)
print(activity())
> eval
probe.rest()
torch.save({}, FILE)
print(activity())
> done

== model saved in eval mode contains nothing of zmon
# The file must load in an environment without zmon.
train()
model.eval()
file = io.BytesIO()
torch.save(model, file)
print(b"zmon" in file.getvalue(), b"zmon" in pickle.dumps(model))
> False False
file.seek(0)
loaded = torch.load(file, weights_only=False)
with torch.no_grad():
    print(torch.equal(loaded(batch), copy.deepcopy(model)(batch)), activity())
> True train
    model(batch)
print(activity())
> eval
print(any(b"zmon" in pickle.dumps(thing) for thing in (optimizer, model.state_dict(), torch.save)))
> False

== distributed checkpoint is recognized with any import
train()
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import save
from torch.distributed.checkpoint.state_dict_saver import save as same
print(save is same is dcp.save, hasattr(save, "__zmon__"))
> True True
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    save(model.state_dict(), checkpoint_id=FOLDER + "/dcp", no_dist=True)
print(*saved())
> - train True

== functions of other libraries that write files are checkpoints, with any import
sys.path.insert(0, FOLDER)
for path, names in (
    ("safetensors/torch", "save_file"), ("lightning/fabric/utilities/cloud_io", "_atomic_save"),
    ("lightning_fabric/utilities/cloud_io", "_atomic_save"), ("megatron/core/dist_checkpointing/serialization", "save"),
):
    file = pathlib.Path(FOLDER, path + ".py")
    file.parent.mkdir(parents=True)
    file.write_text(f"def {names}(note, path): note(); return path")
    module = importlib.import_module(path.replace("/", "."))
    train()
    print(getattr(module, names)(lambda: during.append(activity()), "file"), *saved())
> file checkpoint train True
> file checkpoint train True
> file checkpoint train True
> file checkpoint train True
"""


@pytest.mark.parametrize("case", cases(CASES, SAVED))
def test_saving(start_rank, case):
    case.check(start_rank)
