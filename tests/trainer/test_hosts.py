"""Tests with two launchers, as on two hosts: results are those of one rank, and a dry run predicts the bytes sent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.places import REPOSITORY
from tests.ports import free_port
from tests.trainer.conftest import SMALL, assembled, environment
from trainer.scale.sharding.plan import Plan
from trainer.sharding import Placement

pytestmark = pytest.mark.e2e

SCRIPT = str(Path(__file__).with_name("train_on_hosts.py"))
STEPS, HOSTS, RANKS_PER_HOST = 5, 2, 2
FIXED = {  # every bag has two ids, one in each half of the table, so the prediction is exact
    "embedding": {"rows": [40, 8, 90, 4], "dim": 4},
    "synthetic": {"shortest_bag": 2, "longest_bag": 2},
    "train": {"dtype": "float64"},
    "optimizer": {"embedding": "sgd"},
    "overlap": {"ids": False},
}
KINDS = ("table_wise", "column_wise", "table_row_wise", "data_parallel")


def variant(kind: str, **more) -> list:
    """Return the changes of a configuration with tables of this kind."""
    return [SMALL, FIXED, {"sharding": {"kind": kind}}, more]


ADAGRAD = {"optimizer": {"embedding": "rowwise_adagrad"}}
SEPARATE = {"optimizer": {"embedding": "rowwise_adagrad", "column_moments": "separate"}}
VARIANTS = {
    **{kind: variant(kind) for kind in KINDS},
    "mix": variant("table_row_wise,column_wise,table_row_wise,table_wise", model={"interaction": "cross"}),
    "half": variant("table_row_wise", train={"dtype": "float32"}, wire={"forward": "float16", "backward": "bfloat16"}),
    "adagrad": variant("table_row_wise,column_wise,column_wise,table_wise", **ADAGRAD),
    "separate": variant("column_wise", **SEPARATE),
    **{f"uneven {kind}": variant(kind, train={"global_batch": 5}, **ADAGRAD) for kind in KINDS},
}
ON_ALL_HOSTS = "column_wise on all hosts"  # the planner would keep such small tables on one host


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict]]:
    """Return the results of the ranks of two hosts, by variant."""
    out, port = tmp_path_factory.mktemp("hosts"), str(free_port())
    ranks = range(HOSTS * RANKS_PER_HOST)
    Plan(len(ranks), (Placement("column_wise", tuple(ranks)),) * 4).save(out / "plan.yaml")
    variants = VARIANTS | {ON_ALL_HOSTS: variant("auto", sharding={"plan": str(out / "plan.yaml")}, **ADAGRAD)}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(HOSTS)]
    launcher += ["--nproc-per-node", str(RANKS_PER_HOST), "--master-addr", "127.0.0.1", "--master-port", port]
    hosts = [
        subprocess.Popen(
            [*launcher, "--node-rank", str(host), SCRIPT, str(STEPS), str(out), json.dumps(variants)],
            env=environment(out),
            cwd=REPOSITORY,
            stderr=subprocess.PIPE,
            text=True,
        )
        for host in range(HOSTS)
    ]
    for host in hosts:
        _, errors = host.communicate(timeout=240)
        assert host.returncode == 0, errors
    return {name: [torch.load(out / f"{name}-{rank}.pt") for rank in ranks] for name in variants}


@pytest.fixture
def single(start, tmp_path: Path):
    """Return a function that trains a variant on one rank."""

    def run(name: str) -> dict:
        ended = start(1, SCRIPT, str(STEPS), str(tmp_path), json.dumps({name: VARIANTS[name]}))
        assert ended.returncode == 0, ended.stderr
        return torch.load(tmp_path / f"{name}-0.pt")

    return run


@pytest.mark.parametrize("name", [*VARIANTS, ON_ALL_HOSTS])
def test_bytes_within_and_between_hosts_are_those_of_a_dry_run(results, name: str) -> None:
    for result in results[name]:
        assert result["counted"] == result["predicted"]
        assert result["inside_bytes_across_hosts"] == 0
    has_all_to_alls = not name.endswith("data_parallel")
    assert any(sum(result["counted"]) for result in results[name]) == has_all_to_alls


def test_table_row_wise_sends_no_more_vectors_between_hosts_than_table_wise(results) -> None:
    across = {kind: sum(result["pooled_bytes_across_hosts"] for result in results[kind]) for kind in KINDS}
    assert across["table_row_wise"] == across["table_wise"] > 0
    assert results["table_row_wise"][0]["num_inside"] == 2 * STEPS  # sums forward, gradients backward


@pytest.mark.parametrize("name", ["mix", "adagrad"])
def test_two_hosts_equal_single_rank(results, single, name: str) -> None:
    alone = single(name)
    for tensor in alone["tensors"]:
        expected = assembled(alone["tensors"][tensor])
        many = assembled([part for rank in results[name] for part in rank["tensors"][tensor]])
        assert torch.allclose(many, expected, rtol=1e-10, atol=1e-12), tensor
    assert results[name][0]["losses"] == pytest.approx(alone["losses"], rel=1e-10)


def test_separate_moments_are_a_column_for_each_shard(start, tmp_path: Path) -> None:
    """After one step, the mean of the separate moments of a row is its shared moment."""
    variants = {"shared": variant("column_wise", **ADAGRAD), "separate": variant("column_wise", **SEPARATE)}
    ended = start(2, SCRIPT, "1", str(tmp_path), json.dumps(variants))
    assert ended.returncode == 0, ended.stderr
    shared, separate = (
        assembled(
            part
            for rank in (0, 1)
            for part in torch.load(tmp_path / f"{name}-{rank}.pt")["tensors"]["table.0.rowwise_adagrad"]
        )
        for name in variants
    )
    assert (shared.shape, separate.shape) == ((40,), (40, 2))
    assert torch.allclose(separate.mean(dim=1), shared, rtol=1e-10)
    assert not torch.equal(separate[:, 0], separate[:, 1])
