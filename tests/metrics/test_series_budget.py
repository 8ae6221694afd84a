"""Tests of the number of series of one rank, GPU and link, from the pages of agents that read everything."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.agent.sources.nvml import Stub
from tests.agent.sources.trees import MLX5_ROCE, PORT_COUNTERS, FakeSys
from tests.build import agent_report, measures
from tests.metrics.scene import FULL_HOST, FULL_RANK, SOURCES, page, samples, value
from tests.steps import totals_of
from zmon.agent.sources.gpu import ECC, FIELDS, GpuSource
from zmon.agent.sources.nic import ERROR_COUNTERS as NIC_ERRORS
from zmon.agent.sources.nic import NicSource
from zmon.agent.sources.rdma import ERROR_COUNTERS as RDMA_ERRORS
from zmon.metrics import agent_page
from zmon.metrics.agent import least_needed
from zmon.metrics.names import MAX_COUNTERS, shown_errors
from zmon.schema.host import HostSample, NicSample
from zmon.schema.names import OPS, PHASES

# The most series of one item. docs/scale.md has those of a rank, a GPU and a link.
MAX_SERIES_OF_RANK = 66  # that uses six ops
MAX_SERIES_OF_GPU = 30
MAX_SERIES_OF_INTERFACE = 9
MAX_SERIES_OF_LINK = 14


def num_series(text, **labels):
    """Return the number of series of a page that have these labels."""
    return sum(labels.items() <= sample.labels.items() for sample in samples(text))


def test_rank_that_reports_everything_and_uses_six_ops_is_within_the_budget():
    text = page(FULL_RANK, sample=FULL_HOST)
    assert value(text, "zmon_tcp_send_queue_bytes", rank="1") is not None
    assert num_series(text, rank="1") == MAX_SERIES_OF_RANK


def test_each_further_op_of_a_rank_is_five_series():
    """A rank that uses all eleven ops exceeds the budget by 25 series."""
    phases = dict.fromkeys(PHASES, 1.0)
    num_series_by_ops = {}
    for num_ops in (6, 7, len(OPS)):
        totals = FULL_RANK.totals | totals_of(measures(phases, dict.fromkeys(OPS[:num_ops], 1.0)))
        text = page(replace(FULL_RANK, totals=totals), sample=FULL_HOST)
        num_series_by_ops[num_ops] = num_series(text, rank="1")
    most = MAX_SERIES_OF_RANK
    assert num_series_by_ops == {6: most, 7: most + 5, 11: most + 25}


def test_page_beyond_its_limit_loses_whole_metrics():
    ranks = [replace(FULL_RANK, rank=rank, local_rank=rank, run_uid=f"uid-{rank}") for rank in range(256)]
    report = agent_report(*ranks, sample=FULL_HOST, sources=SOURCES)

    def page_within(limit):
        return agent_page(report, cpu_seconds=1.0, resident_bytes=2, max_series=limit).decode()

    whole = Counter(sample.name for sample in samples(page_within(None)))
    for limit in (20_000, 12_000, 5_000, 2_000, 1_000):
        text = page_within(limit)
        left = Counter(sample.name for sample in samples(text))
        assert left.total() <= limit
        assert value(text, "zmon_series_left_out") == whole.total() - left.total()
        assert all(left[name] in (0, whole[name]) for name in least_needed())
        assert left["zmon_lease_overdue_seconds"] == left["zmon_steps_total"] == 256
        assert left["zmon_nic_up"] == whole["zmon_nic_up"]


def answer_of(field):
    """Return the name of the stub's answer for a field of NVML, which may have a scope."""
    return "field." + ("@".join(map(str, field)) if isinstance(field, tuple) else str(field))


def test_gpu_with_both_kinds_of_repaired_memory_has_two_series_more_than_the_budget(tmp_path, monkeypatch):
    """A real card has either retired pages or remapped rows, so it has two series less than the stub."""
    stub = Stub(tmp_path, monkeypatch)
    stub.set_answers(*(("0", answer_of(field), 1) for field in FIELDS), ("0", "gpm.5", 40), ("0", "gpm.10", 40))
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: ("mlx5_0:1",))
    source = GpuSource()
    source.read()
    (card,) = source.read().value
    assert card.ecc_errors.keys() == ECC.keys()
    assert None not in (
        card.nvlink_received_bytes, card.nvlink_errors, card.pcie_sent_bytes, card.memory_temperature_celsius,
        card.repair_pending, card.tensor_active_ratio, card.memory_active_ratio,
    )  # fmt: skip
    assert num_series(page(sample=HostSample(gpus=(card,))), gpu="0") == MAX_SERIES_OF_GPU + 2


def test_page_leaves_out_what_tells_nothing_about_training(tmp_path, monkeypatch):
    """The detectors and the capsules of incidents still have these values."""
    stub = Stub(tmp_path, monkeypatch)
    stub.set_answers(*(("0", f"field.{field}", 1) for field in ECC.values()))
    (card,) = GpuSource().read().value
    text = page(sample=HostSample(gpus=(card,)))
    assert {"graphics", "video"} < card.clocks_hertz.keys()
    for word in ("graphics", "video", "sync_boost", "aggregate_corrected", "aggregate_uncorrected"):
        assert f'"{word}"' not in text
    for word in ("sm", "memory", "sw_power_cap", "hw_thermal", "volatile_uncorrected", "remapped_uncorrectable"):
        assert f'"{word}"' in text


def test_network_interface_is_within_the_budget(tmp_path):
    FakeSys(tmp_path).interface("eth0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0")
    (link,) = NicSource(tmp_path).read().value
    assert link.errors.keys() == NIC_ERRORS.keys()
    assert num_series(page(sample=HostSample(nics=(link,))), device="eth0") == MAX_SERIES_OF_INTERFACE


def port(transport, errors):
    """Return the sample of an RDMA port with these counters of errors."""
    return NicSample(
        "port", transport, up=True, speed_bytes_per_second=1.0, received_bytes=1, transmitted_bytes=1, errors=errors
    )  # fmt: skip


@pytest.mark.parametrize("transport", ["infiniband", "roce", "iwarp", "efa", "of a newer kernel"])
def test_port_of_any_driver_is_within_the_budget(transport):
    every_counter = port(transport, dict.fromkeys(sorted(RDMA_ERRORS), 0))
    assert num_series(page(sample=HostSample(rdma=(every_counter,))), device="port") == MAX_SERIES_OF_LINK


@pytest.mark.parametrize(
    ("transport", "counters", "shown"),
    [
        ("infiniband", PORT_COUNTERS | MLX5_ROCE, {"link_downed", "symbol_error", "port_xmit_wait", "packet_seq_err"}),
        ("roce", PORT_COUNTERS | MLX5_ROCE, {"out_of_sequence", "local_ack_timeout_err", "np_cnp_sent"}),
    ],
)
def test_lost_packets_and_congestion_come_before_other_counters(transport, counters, shown):
    errors = {name: 0 for name in counters if name in RDMA_ERRORS}
    assert len(errors) > MAX_COUNTERS  # so that some are left out
    assert shown <= shown_errors(port(transport, errors)).keys()


def test_link_with_few_counters_shows_all_of_them():
    errors = dict.fromkeys(sorted(RDMA_ERRORS)[:10], 0)
    assert shown_errors(port("efa", errors)) == errors
