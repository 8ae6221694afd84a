"""Bandwidth and latency come back from the times that they make, and what was not timed is unknown."""

from dataclasses import replace
from io import StringIO
from random import Random

import pytest
from rich.console import Console

from zmon.cli.render.bandwidth import report
from zmon.errors import UsageError
from zmon.offline.comm_bench import Measured, Timed, links, read, write
from zmon.offline.comm_bench.curve import HOST, NET
from zmon.scaling.predict import Link, Links, op_seconds

SIZES = [1 << power for power in range(10, 27, 2)]
ALONE = Links(ranks_per_host=1, host=None, net=Link(1.2e9, 2e-4))
TOGETHER = Links(ranks_per_host=4, host=Link(8e9, 5e-5), net=None)


def timed(op, group, ranks, link, chance=lambda: 1.0):
    return [Timed(op, group, ranks, size, op_seconds(op, size, ranks, link) * chance()) for size in SIZES]


BOTH_OPS = ("all_to_all", "all_reduce")
TWO_HOSTS = Measured(
    "gloo", 8, 4, [t for op in BOTH_OPS for t in timed(op, HOST, 4, TOGETHER) + timed(op, NET, 2, ALONE)]
)  # fmt: skip


@pytest.mark.parametrize("op", BOTH_OPS)
def test_links_come_back_from_the_times_that_they_make(op):
    found = links(TWO_HOSTS)[op]
    assert found.ranks_per_host == 4
    assert (found.host.bytes_per_second, found.host.latency_seconds) == pytest.approx((8e9, 5e-5))
    assert (found.net.bytes_per_second, found.net.latency_seconds) == pytest.approx((1.2e9, 2e-4))


def test_noise_of_a_tenth_moves_them_by_a_tenth():
    draw = Random(3)
    noisy = timed("all_to_all", NET, 4, ALONE, lambda: draw.lognormvariate(0, 0.1))
    found = links(Measured("gloo", 4, 1, noisy))["all_to_all"]
    assert found.net.bytes_per_second == pytest.approx(1.2e9, rel=0.1)
    assert found.net.latency_seconds == pytest.approx(2e-4, rel=0.1)


def test_links_that_were_not_timed_are_unknown():
    found = links(Measured("gloo", 4, 4, timed("all_to_all", HOST, 4, TOGETHER)))["all_to_all"]
    assert found.net is None
    assert links(Measured("gloo", 4, 4, [])) == {}


def test_one_size_tells_a_bandwidth_and_no_latency():
    (one,) = [t for t in timed("all_reduce", HOST, 4, TOGETHER) if t.num_bytes == 1 << 20]
    found = links(Measured("gloo", 4, 4, [one]))["all_reduce"]
    assert found.host.latency_seconds == 0.0
    assert op_seconds("all_reduce", 1 << 20, 4, found) == pytest.approx(one.seconds)


def test_bus_bandwidth_is_that_of_nccl_tests():
    assert Timed("all_reduce", HOST, 4, 1 << 20, 0.001).bus_bytes_per_second == pytest.approx(1.5 * (1 << 20) / 0.001)
    assert Timed("all_to_all", HOST, 4, 1 << 20, 0.001).bus_bytes_per_second == pytest.approx(0.75 * (1 << 20) / 0.001)


def said(measured):
    console = Console(file=StringIO(), width=80)
    console.print(report(measured))
    return console.file.getvalue()


def test_person_reads_each_kind_of_links_and_what_a_step_is_predicted_with():
    text = said(TWO_HOSTS)
    assert "within a host, 4 ranks" in text
    assert "between hosts, 2 ranks" in text
    told = " ".join(text.split())
    assert "all_to_all: 8.00 GB/s within a host and 50 µs, 1.20 GB/s between hosts and 200 µs" in told


def test_size_that_was_not_timed_is_unknown():
    some = replace(TWO_HOSTS, timed=[t for t in TWO_HOSTS.timed if (t.op, t.num_bytes) != ("all_reduce", 1024)])
    assert "unknown" in said(some)


def test_file_is_read_as_it_was_written(tmp_path):
    write(tmp_path / "links.json", TWO_HOSTS, 1.8e9)
    assert links(read(tmp_path / "links.json")) == links(TWO_HOSTS)
    assert [path.name for path in tmp_path.iterdir()] == ["links.json"]


def test_time_that_is_none_is_refused(tmp_path):
    broken = replace(TWO_HOSTS, timed=[replace(TWO_HOSTS.timed[0], seconds=0.0)])
    write(tmp_path / "links.json", broken, 1.8e9)
    with pytest.raises(UsageError, match="a time in it is none"):
        read(tmp_path / "links.json")


@pytest.mark.parametrize("damage", [None, "", "{}", '{"schema": 1}'])
def test_file_that_is_none_is_refused_in_one_line(tmp_path, damage):
    if damage is not None:
        (tmp_path / "links.json").write_text(damage)
    with pytest.raises(UsageError, match="zmon bench-comm --out"):
        read(tmp_path / "links.json")
