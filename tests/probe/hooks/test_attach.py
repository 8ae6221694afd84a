"""Tests that `zmon.attach()` does not harm the job."""


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


def test_objects_that_outlive_the_modules_of_python_end_without_a_word(start_rank):
    """At its exit, Python clears the names of all modules; a cycle of references may keep a model until then."""
    rank = start_rank("""
        import os, sys, zmon
        assert zmon.attach()
        import torch, torch.distributed as dist
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[0]}.store", rank=0, world_size=1)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        work = dist.all_reduce(torch.ones(1), async_op=True)
        os.kept = model, optimizer, work
        print("end", flush=True)
    """)
    assert rank.wait() == 0
    assert rank.output.partition("end\n")[2] == ""
