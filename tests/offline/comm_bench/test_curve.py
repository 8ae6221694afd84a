"""Tests of the measured bandwidth curve: its fit, its output and its file."""

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
def test_fit_recovers_bandwidth_and_latency(op):
    fitted = links(TWO_HOSTS)[op]
    assert fitted.ranks_per_host == 4
    assert (fitted.host.bytes_per_second, fitted.host.latency_seconds) == pytest.approx((8e9, 5e-5))
    assert (fitted.net.bytes_per_second, fitted.net.latency_seconds) == pytest.approx((1.2e9, 2e-4))


def test_fit_of_noisy_durations_is_within_a_tenth():
    draw = Random(3)
    noisy = timed("all_to_all", NET, 4, ALONE, lambda: draw.lognormvariate(0, 0.1))
    fitted = links(Measured("gloo", 4, 1, noisy))["all_to_all"]
    assert fitted.net.bytes_per_second == pytest.approx(1.2e9, rel=0.1)
    assert fitted.net.latency_seconds == pytest.approx(2e-4, rel=0.1)


def test_links_without_timings_are_unknown():
    fitted = links(Measured("gloo", 4, 4, timed("all_to_all", HOST, 4, TOGETHER)))["all_to_all"]
    assert fitted.net is None
    assert links(Measured("gloo", 4, 4, [])) == {}


def test_fit_of_a_single_size_has_no_latency():
    (message,) = [t for t in timed("all_reduce", HOST, 4, TOGETHER) if t.num_bytes == 1 << 20]
    fitted = links(Measured("gloo", 4, 4, [message]))["all_reduce"]
    assert fitted.host.latency_seconds == 0.0
    assert op_seconds("all_reduce", 1 << 20, 4, fitted) == pytest.approx(message.seconds)


def test_bus_bandwidth_is_defined_as_in_nccl_tests():
    assert Timed("all_reduce", HOST, 4, 1 << 20, 0.001).bus_bytes_per_second == pytest.approx(1.5 * (1 << 20) / 0.001)
    assert Timed("all_to_all", HOST, 4, 1 << 20, 0.001).bus_bytes_per_second == pytest.approx(0.75 * (1 << 20) / 0.001)


def render(measured):
    console = Console(file=StringIO(), width=80)
    console.print(report(measured))
    return console.file.getvalue()


def test_output_has_each_group_and_the_fit():
    text = render(TWO_HOSTS)
    assert "within a host, 4 ranks" in text
    assert "between hosts, 2 ranks" in text
    assert "all_to_all time bus bandwidth all_reduce time bus bandwidth" in " ".join(text.split())
    fit = "within a host bus bandwidth 8.00 GB/s, latency 50 µs; between hosts bus bandwidth 1.20 GB/s, latency 200 µs"
    assert f"all_to_all, fitted: {fit}" in " ".join(text.split())


def test_output_shows_untimed_sizes_as_unknown():
    incomplete = replace(TWO_HOSTS, timed=[t for t in TWO_HOSTS.timed if (t.op, t.num_bytes) != ("all_reduce", 1024)])
    assert "unknown" in render(incomplete)


def test_written_file_is_read_back(tmp_path):
    write(tmp_path / "links.json", TWO_HOSTS, 1.8e9)
    assert links(read(tmp_path / "links.json")) == links(TWO_HOSTS)
    assert [path.name for path in tmp_path.iterdir()] == ["links.json"]


def test_duration_of_zero_is_refused(tmp_path):
    broken = replace(TWO_HOSTS, timed=[replace(TWO_HOSTS.timed[0], seconds=0.0)])
    write(tmp_path / "links.json", broken, 1.8e9)
    with pytest.raises(UsageError, match="it has a duration or size that is not valid"):
        read(tmp_path / "links.json")


@pytest.mark.parametrize("damage", [None, "", "{}", '{"schema": 1}'])
def test_invalid_file_is_refused(tmp_path, damage):
    if damage is not None:
        (tmp_path / "links.json").write_text(damage)
    with pytest.raises(UsageError, match="zmon bench-comm --out"):
        read(tmp_path / "links.json")
