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
