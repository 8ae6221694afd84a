"""The page of /metrics: names of the contract, nothing promtool minds, nothing unknown shown as zero."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.build import agent_report, finding, measures, rank_state
from zmon.hardware import GpuSample, HostLoad, HostSample, NicSample, SourceStatus
from zmon.metrics import SPECS, STEP_HISTOGRAM, STEP_SECONDS_BOUNDS, agent_page, free_labels, hub_page
from zmon.records import OPS, PHASES, InFlight, JobView, Memory

GOLDEN = dict(
    line.split(" ", 1) if " " in line else (line, "")
    for line in (Path(__file__).parent / "golden/metric_names.txt").read_text().splitlines()
    if not line.startswith("#")
)

FULL_RANK = rank_state(
    1,
    measures=measures(
        dict.fromkeys(PHASES, 1.0), dict.fromkeys(OPS[:6], 1.0), samples=320, lookups=8000, network_sent_bytes=10,
        network_received_bytes=11, nic_sent_bytes=12, nic_received_bytes=13,
    ),
    memory=Memory(1, 2, 3),
    report={"loss": float("nan"), "auc": 0.7, "ne": 0.9, "lr": 0.1},
    in_flight=InFlight("all_to_all", "0", 7, 100, 0.25),
    last_checkpoint_time=1.8e9,
)  # fmt: skip
FULL_HOST = HostSample(
    nics=(NicSample("eth0", "tcp", True, 1.25e9, 1000, 2000, {"rx_errors": 0}),),
    gpus=(GpuSample("0", "GPU-1", memory_used_bytes=1, memory_total_bytes=2, utilization_ratio=0.5),),
    load=HostLoad({"user": 1.0, "idle": 2.0}, 1, 2, 0),
)
SOURCES = (
    SourceStatus("boxes", True, False, 0.001, 1.8e9, 0, None),
    SourceStatus("gpu", False, True, 0.001, None, 0, "no NVML"),
    SourceStatus("nic", False, False, 5.0, 1.8e9, 3, "it hangs"),
)
JOB_VIEW = JobView(
    "job", 0, 4, 3, "train", 100, 0.02, 0.03, 1600.0, {"loss": None}, {"forward": 1.0, "imbalance": 0.5}, ("node-a",),
    {"owner": "ann", "model": 'dl"rm\n', "job": "no", "instance": "no", "__name__": "no", "1st": "no"}, ("f1",),
)  # fmt: skip


def page(*ranks, sample=HostSample(), sources=()):  # noqa: B008 - frozen
    """The agent's page as text."""
    return agent_page(agent_report(*ranks, sample=sample, sources=sources), 1.0, 2).decode()


def hub(findings=(), jobs=(JOB_VIEW,), last_pass=1.8e9):
    """The hub's page as text."""
    counts = [0] * (len(STEP_SECONDS_BOUNDS) + 1)
    counts[4], counts[-1] = 3, 1
    return hub_page(jobs, {"job": (counts, 123.5)}, findings, 0.01, last_pass, "0.1.0").decode()


def series(text, name):
    """Value by labels of one metric."""
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def value(text, name, **labels):
    """The value of the one series with these labels; None where there is none."""
    found = [v for have, v in series(text, name).items() if set(labels.items()) <= set(have)]
    assert len(found) < 2
    return found[0] if found else None


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPECS)
def test_metric_is_of_the_contract_with_its_labels(name):
    """To add one: contract.md first, then tests/golden/metric_names.txt."""
    assert name in GOLDEN
    labels = GOLDEN[name].removesuffix(",…")
    assert ",".join(SPECS[name].labels) == labels


def test_histogram_is_of_the_contract_with_its_bounds():
    assert STEP_HISTOGRAM in GOLDEN
    assert tuple(0.001 * 2**k for k in range(17)) == STEP_SECONDS_BOUNDS


def test_counters_end_in_total_and_gauges_do_not():
    for name, spec in SPECS.items():
        assert name.endswith("_total") == (spec.kind == "counter"), name


def test_no_label_is_one_that_prometheus_sets_itself():
    assert not {"job", "instance"} & {label for spec in SPECS.values() for label in spec.labels}


@pytest.mark.parametrize(
    "text",
    [
        page(FULL_RANK, rank_state(2), sample=FULL_HOST, sources=SOURCES),
        page(),
        hub([finding(), finding(id="f2", detector="coverage", ranks=(), hosts=())]),
        hub((), (), None),
    ],
    ids=["agent", "idle agent", "hub", "blind hub"],
)
def test_promtool_has_nothing_to_say_and_every_name_is_of_the_contract(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert names <= GOLDEN.keys()


def test_rank_with_six_ops_has_64_series_at_most():
    text = page(FULL_RANK)
    assert sum('rank="1"' in line for line in text.splitlines()) <= 64


# -- values ------------------------------------------------------------------------------------------------


def test_numbers_of_a_rank_are_on_the_page():
    text = page(FULL_RANK)
    assert value(text, "zmon_steps_total", rank="1", job_id="job", host="node-a") == 100
    assert value(text, "zmon_samples_total", rank="1") == 320
    assert value(text, "zmon_collectives_total", op="all_to_all") == 1
    assert value(text, "zmon_collective_bytes_total", op="all_to_all", direction="sent") == 8
    assert value(text, "zmon_collective_inflight_seconds") == 0.25
    assert value(text, "zmon_activity", activity="train") == 1
    assert value(text, "zmon_activity", activity="eval") == 0
    assert value(text, "zmon_device_memory_bytes", kind="peak") == 3
    assert value(text, "zmon_rank_info", device="cpu", backend="gloo", attempt="0", local_rank="1") == 1


def test_nan_stays_nan():
    assert value(page(FULL_RANK), "zmon_report", key="loss") != value(page(FULL_RANK), "zmon_report", key="loss")
    assert value(page(FULL_RANK), "zmon_report", key="auc") == 0.7


def test_unknown_is_left_out_and_not_zero():
    text = page(rank_state(0, last_step_time=None, resident_bytes=None))
    for name in (
        "samples_total", "lookups_total", "last_step_timestamp_seconds", "last_checkpoint_timestamp_seconds",
        "collective_network_bytes_total", "step_nic_bytes_total", "device_memory_bytes", "process_resident_bytes",
    ):  # fmt: skip
        assert series(text, f"zmon_{name}") == {}, name


def test_rank_in_no_collective_has_been_in_one_for_zero_seconds():
    assert value(page(rank_state(0)), "zmon_collective_inflight_seconds") == 0


def test_only_ops_that_ran_have_series():
    ops = {dict(labels)["op"] for labels in series(page(rank_state(0)), "zmon_collectives_total")}
    assert ops == {"all_to_all"}


def test_interface_of_which_little_is_known_shows_little():
    nic = NicSample("ib0", "rdma", None, None, 7, None, {})
    text = page(sample=HostSample(nics=(nic,)))
    assert value(text, "zmon_nic_receive_bytes_total", device="ib0", transport="rdma") == 7
    assert series(text, "zmon_nic_up") == series(text, "zmon_nic_speed_bytes_per_second") == {}


def test_source_that_is_absent_is_not_down():
    text = page(sources=SOURCES)
    assert value(text, "zmon_source_up", source="boxes") == 1
    assert value(text, "zmon_source_up", source="nic") == 0
    assert value(text, "zmon_source_errors_total", source="nic") == 3
    assert value(text, "zmon_source_up", source="gpu") is None


def test_labels_of_a_job_are_its_own_as_far_as_prometheus_takes_them():
    assert free_labels(JOB_VIEW.labels) == {"owner": "ann", "model": 'dl"rm\n'}
    (labels,) = series(hub(), "zmon_job_info")
    assert dict(labels) == {"job_id": "job", "world_size": "4", "owner": "ann", "model": 'dl"rm\n'}


def test_label_of_a_job_cannot_take_the_place_of_its_id():
    view = replace(JOB_VIEW, labels={"job_id": "evil", "world_size": "9"})
    assert value(hub(jobs=[view]), "zmon_job_info", job_id="job", world_size="4") == 1


def test_histogram_is_cumulative_and_sums_to_the_time_of_the_steps():
    text = hub()
    assert value(text, "zmon_job_step_duration_seconds_bucket", le="0.008") == 0
    assert value(text, "zmon_job_step_duration_seconds_bucket", le="0.016") == 3
    assert value(text, "zmon_job_step_duration_seconds_bucket", le="65.536") == 3
    assert value(text, "zmon_job_step_duration_seconds_bucket", le="+Inf") == 4
    assert value(text, "zmon_job_step_duration_seconds_count") == 4
    assert value(text, "zmon_job_step_duration_seconds_sum") == 123.5


def test_finding_is_a_series_for_each_rank_it_names():
    text = hub([finding(ranks=(1, 3), hosts=("node-a", "node-b"))])
    assert len(series(text, "zmon_finding")) == 2
    assert value(text, "zmon_finding", rank="3", host="node-b", cause="rank_frozen", severity="critical") == 1


def test_finding_that_names_nobody_is_one_series():
    text = hub([finding(ranks=(), hosts=(), cause="unknown")])
    assert value(text, "zmon_finding", rank="", host="", cause="unknown") == 1


def test_hub_that_never_passed_has_no_heartbeat():
    assert value(hub(last_pass=None), "zmon_hub_last_pass_timestamp_seconds") is None
    assert value(hub(), "zmon_hub_last_pass_timestamp_seconds") == 1.8e9
    assert value(hub(), "zmon_hub_coverage_ratio", job_id="job") == 0.75
