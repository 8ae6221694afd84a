"""Tests of the /metrics pages of agent and hub. They pass promtool, and unknown values have no series."""

import math
import subprocess
from dataclasses import replace

import pytest
import yaml

from tests.build import finding, rank_state
from tests.golden.compare import check_text
from tests.metrics.scene import FULL_HOST, FULL_RANK, JOB_VIEW, SOURCES, hub, page, series, value
from tests.places import REPOSITORY
from zmon.doctor.rules import inputs
from zmon.metrics import SPECS, STEP_HISTOGRAM, free_labels
from zmon.schema.host import HostSample, NicSample
from zmon.schema.measures import AMOUNT_MEASURES

SCENE = page(FULL_RANK, rank_state(2), sample=FULL_HOST, sources=SOURCES)


def test_page_of_the_scene_equals_its_golden():
    check_text("agent_page.txt", SCENE)


def test_scene_shows_every_metric_of_ranks_and_hosts():
    shown = {line.split()[2] for line in SCENE.splitlines() if line.startswith("# TYPE")}
    hub_names = {name for name in SPECS if name.startswith(("zmon_job_", "zmon_hub_", "zmon_finding"))}
    assert SPECS.keys() - hub_names == shown


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SCENE, id="agent"),
        pytest.param(page(), id="idle agent"),
        pytest.param(hub([finding(), finding(id="f2", detector="coverage", ranks=(), hosts=())]), id="hub"),
        pytest.param(hub((), (), None), id="blind hub"),
    ],
)
def test_promtool_accepts_the_page_and_all_names_are_known(text):
    command = ["promtool", "check", "metrics"]
    completed = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert names <= SPECS.keys() | {STEP_HISTOGRAM}


def test_page_shows_the_values_of_a_rank():
    text = page(FULL_RANK)
    assert value(text, "zmon_steps_total", rank="1", job_id="job", host="node-a") == 100
    assert value(text, "zmon_samples_total", rank="1") == 320
    assert value(text, "zmon_collectives_total", op="all_to_all") == 1
    assert value(text, "zmon_collective_bytes_total", op="all_to_all", direction="sent") == 8
    assert value(text, "zmon_collective_inflight_seconds") == 0.25
    assert value(text, "zmon_activity", activity="train") == 1
    assert value(text, "zmon_activity", activity="eval") == 0
    assert value(text, "zmon_device_memory_bytes", kind="peak") == 3
    assert value(text, "zmon_rank_info", device="cpu", backend="gloo", attempt="0", local_rank="1", edge="python") == 1


def test_reported_nan_is_shown_as_nan():
    assert math.isnan(value(page(FULL_RANK), "zmon_report", key="loss"))
    assert value(page(FULL_RANK), "zmon_report", key="auc") == 0.7


def test_unknown_value_of_a_rank_has_no_series():
    text = page(rank_state(0, last_step_time=None, resident_bytes=None))
    amount_metrics = [measure.metric for measure in AMOUNT_MEASURES if measure.metric]
    assert {"zmon_samples_total", "zmon_step_nic_bytes_total"} <= {*amount_metrics}
    for name in (
        *amount_metrics, "zmon_last_step_timestamp_seconds", "zmon_last_checkpoint_timestamp_seconds",
        "zmon_device_memory_bytes", "zmon_process_resident_bytes",
    ):  # fmt: skip
        assert series(text, name) == {}, name


def test_unknown_values_of_an_interface_have_no_series():
    nic = NicSample(
        "ib0", "rdma", up=None, speed_bytes_per_second=None, received_bytes=7, transmitted_bytes=None, errors={}
    )  # fmt: skip
    text = page(sample=HostSample(nics=(nic,)))
    assert value(text, "zmon_nic_receive_bytes_total", device="ib0", transport="rdma") == 7
    assert series(text, "zmon_nic_up") == series(text, "zmon_nic_speed_bytes_per_second") == {}


def test_lost_gpu_is_marked_and_has_no_memory_value():
    assert value(SCENE, "zmon_gpu_lost", uuid="GPU-2") == 1
    assert value(SCENE, "zmon_gpu_lost", uuid="GPU-1") == 0
    assert value(SCENE, "zmon_gpu_memory_used_bytes", uuid="GPU-2") is None


def test_send_queue_is_summed_over_peers_of_reported_ranks():
    assert value(SCENE, "zmon_tcp_send_queue_bytes", rank="1") == 65_100
    assert value(SCENE, "zmon_tcp_send_queue_bytes", rank="2") is None  # it has no connection
    assert value(SCENE, "zmon_tcp_send_queue_bytes", job_id="old") is None


def test_storage_reads_of_a_job_are_those_of_its_shown_ranks_and_unknown_if_one_is():
    def text(*reads):
        process = FULL_HOST.processes[0]
        processes = tuple(replace(process, rank=rank, storage_read_bytes=each) for rank, each in enumerate(reads))
        ranks = [rank_state(rank, job_id="job") for rank in range(2)]
        return page(*ranks, sample=replace(FULL_HOST, processes=processes))

    assert value(text(5, 7, 100), "zmon_storage_read_bytes_total", job_id="job") == 12
    assert value(text(5, None), "zmon_storage_read_bytes_total", job_id="job") is None


def test_activity_init_has_a_series_until_the_first_step():
    """The activity init never comes again, and a rank may have 66 series."""
    assert value(page(rank_state(0, steps=0, activity="init")), "zmon_activity", activity="init") == 1
    assert value(page(rank_state(0, steps=0, activity="eval")), "zmon_activity", activity="init") == 0
    assert value(page(rank_state(0)), "zmon_activity", activity="init") is None


def test_absent_source_has_no_up_series():
    text = page(sources=SOURCES)
    assert value(text, "zmon_source_up", source="boxes") == 1
    assert value(text, "zmon_source_up", source="nic") == 0
    assert value(text, "zmon_source_errors_total", source="nic") == 3
    assert value(text, "zmon_source_up", source="gpu") is None


def test_job_info_has_the_labels_that_prometheus_accepts():
    assert free_labels(JOB_VIEW.labels) == {"owner": "ann", "model": 'dl"rm\n'}
    (labels,) = series(hub(), "zmon_job_info")
    assert dict(labels) == {"job_id": "job", "world_size": "4", "owner": "ann", "model": 'dl"rm\n'}


def test_job_info_exceeds_no_label_limit_of_a_site():
    """Prometheus drops the whole scrape of the hub if one series has too many labels."""
    view = replace(JOB_VIEW, labels={f"n{number}": "v" for number in range(40)} | {"long": "x" * 1000})
    (labels,) = series(hub(jobs=[view]), "zmon_job_info")
    assert len(labels) == 18
    assert free_labels(view.labels, 3) == {"n0": "v", "n1": "v", "n2": "v"}


def test_job_label_cannot_replace_the_job_id():
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


def test_finding_has_a_series_for_each_rank():
    text = hub([finding(ranks=(1, 3), hosts=("node-a", "node-b"))])
    assert len(series(text, "zmon_finding")) == 2
    assert value(text, "zmon_finding", rank="3", host="node-b", cause="rank_frozen", severity="critical") == 1


def test_finding_without_ranks_has_a_single_series():
    text = hub([finding(ranks=(), hosts=(), cause="unknown")])
    assert value(text, "zmon_finding", rank="", host="", cause="unknown") == 1


def test_metrics_of_alerts_are_declared_before_there_is_a_job():
    """The metadata of Prometheus then tells "no finding now" from "no hub is scraped"."""
    rules = [
        rule
        for path in (REPOSITORY / "dashboards/rules").glob("*.yaml")
        for group in yaml.safe_load(path.read_text()).get("groups", [])
        for rule in group["rules"]
    ]
    recorded = {rule["record"]: rule["expr"] for rule in rules if "record" in rule}
    used = {name for rule in rules if "alert" in rule for name in inputs(rule["expr"], recorded)}
    metrics = {name for name in used if name.startswith("zmon")}
    assert metrics > {"zmon_finding", "zmon_lease_overdue_seconds"}
    text = hub(jobs=()) + page()
    assert {name for name in metrics if f"# TYPE {name} " not in text} == set()


def test_heartbeat_is_absent_before_the_first_pass():
    assert value(hub(last_pass=None), "zmon_hub_last_pass_timestamp_seconds") is None
    assert value(hub(), "zmon_hub_last_pass_timestamp_seconds") == 1.8e9
