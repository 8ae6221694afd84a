"""Test of the switch of the overhead benchmark: in the mode `absent`, a job has nothing of zmon."""

import json
from pathlib import Path


def test_switch_brings_back_all_that_it_removed(start_rank):
    rank = start_rank(Path(__file__).with_name("switched_job.py").read_text(), GLOO_SOCKET_IFNAME="lo")
    assert rank.wait(40) == 0, rank.output
    watched, absent, again = map(json.loads, rank.output.splitlines())
    assert absent == {"changed": [], "num_hooks": 0, "step": watched["step"]}
    assert again == {**watched, "step": watched["step"] + 1}
    assert len(watched["changed"]) > 30
    assert watched["num_hooks"] > 2
