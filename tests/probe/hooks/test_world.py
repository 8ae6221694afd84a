"""Test that the box holds the backend and the process groups of the rank, also after new groups."""

from tests.probe.hooks.scripts import run_script


def test_backend_and_group_names_are_known_after_process_groups_are_made(start_rank):
    script = """
from zmon.box.reader import BoxReader
import torch.distributed as dist
def identity():
    return bytes(timeline.box.view)  # opening and closing the file would drop the rank's lock
for number in range(2):
    store = f"file://{os.path.dirname(sys.argv[0])}/store{number}"
    dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    other = dist.new_group([0])
    dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(1), group=other)
    dist.destroy_process_group()
names = [name for name, _ in timeline.group.__self__._groups]
print(len(names) == len(set(names)), len(names) <= 4, b"gloo" in identity(), timeline.ledger.dropped)
"""
    assert run_script(start_rank, script) == ["True True True 0"]
