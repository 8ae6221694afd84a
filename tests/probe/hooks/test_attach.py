"""Tests of `zmon.attach()`. It prints nothing, and a hook that fails does not harm the job."""

from tests.probe.hooks.scripts import run_script


def test_attach_prints_nothing_in_a_healthy_job(start_rank):
    rank = start_rank("import zmon\nassert zmon.attach()\nwith zmon.step():\n    pass\n")
    assert rank.wait(10) == 0
    assert rank.output == ""


def test_memory_of_the_device_is_unknown_without_a_gpu(start_rank):
    assert run_script(start_rank, "print(timeline.ledger.memory_reader())") == ["None"]


def test_rank_that_exits_right_after_attach_ends(start_rank):
    """A job that fails early, for example with a bad argument, must not hang in a thread of the probe."""
    script = "import sys, zmon\nassert zmon.attach()\nsys.exit(3)\n"
    ranks = [start_rank(script, number, 8) for number in range(8)]
    assert [rank.wait(30) for rank in ranks] == [3] * 8  # long enough for a busy machine


def test_hook_that_fails_is_reported_and_the_others_are_installed(start_rank):
    rank = start_rank("""
        import zmon
        from zmon import probe
        from zmon.probe.hooks import device
        device.install = lambda: 1 / 0
        import torch.distributed as dist
        print(zmon.attach(), hasattr(dist.all_reduce, "__zmon__"), bool(probe.current))
    """)
    assert rank.wait() == 0
    assert "zmon: cannot install the hook 'device' in this job: ZeroDivisionError" in rank.output
    assert "True True True" in rank.output


def test_backend_and_group_names_are_known_after_process_groups_are_made(start_rank):
    script = """
import torch.distributed as dist
for number in range(2):
    store = f"file://{os.path.dirname(sys.argv[0])}/store{number}"
    dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    other = dist.new_group([0])
    dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(1), group=other)
    dist.destroy_process_group()
names = [name for name, _ in timeline.group.__self__._groups]
box = bytes(timeline.box.view)  # a reader would drop the rank's lock of the file when it closes it
print(len(names), len(names) == len(set(names)), b"gloo" in box, timeline.ledger.dropped)
"""
    assert run_script(start_rank, script) == ["2 True True 0"]
