"""Tests of the files for several Prometheus and for long-term storage. tests/dashboards/stores/ runs them."""

import re
import subprocess

import pytest
import yaml

from dashboards.intervals import CLUSTER
from dashboards.rules.render import rendered, sharded
from tests.places import REPOSITORY

FOLDER = REPOSITORY / "deploy/long-term"
UNITS = ["zmon-store@.service", "zmon-router.service", "zmon-vmalert.service"]
RULES = [
    (group["name"], rule)
    for text in rendered(CLUSTER).values()
    for group in yaml.safe_load(text)["groups"]
    for rule in group["rules"]
]
RECORDED = {rule["record"] for _, rule in RULES if "record" in rule}


def run(*command):
    """Run a program; return its exit code and what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def store_filter(file):
    """Return a function that tells if a store keeps a series of this name."""
    (rule,) = yaml.safe_load((FOLDER / file).read_text())
    assert (rule["action"], rule["source_labels"]) == ("keep", ["__name__"])
    return lambda name: re.fullmatch(rule["regex"], name) is not None


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path, name):
    program = tmp_path / "program"
    program.symlink_to("/bin/true")
    (tmp_path / name).write_text(re.sub(r"/usr/bin/\S+", str(program), (FOLDER / name).read_text()))
    assert run("systemd-analyze", "verify", "--man=no", str(tmp_path / name)) == (0, "")


def test_promtool_accepts_the_configuration_of_a_shard_and_its_rules(tmp_path):
    (tmp_path / "shard.yaml").write_text(sharded(CLUSTER)["shard.yaml"])
    text = (FOLDER / "shard.yml").read_text().replace("/etc/zmon/rules", str(tmp_path))
    text = text.replace("/etc/zmon", str(tmp_path))
    (tmp_path / "agents.json").write_text("[]")
    (tmp_path / "shard.yml").write_text(text)
    code, printed = run("promtool", "check", "config", str(tmp_path / "shard.yml"))
    assert code == 0, printed


@pytest.mark.parametrize("name", ["zmon.yaml", "panels.yaml", "hardware.yaml"])
def test_vmalert_accepts_the_rules_and_their_templates(tmp_path, name):
    (tmp_path / name).write_text(sharded(CLUSTER)[name])
    subprocess.run(["sed", "-i", "-f", FOLDER / "vmalert.sed", tmp_path / name], check=True)
    assert "externalLabels" not in (tmp_path / name).read_text()
    code, printed = run("vmalert", "-dryRun", f"-rule={tmp_path / name}")
    assert code == 0, printed


def test_every_rule_is_evaluated_by_the_shards_or_by_vmalert():
    of_shard = yaml.safe_load(sharded(CLUSTER)["shard.yaml"])["groups"]
    of_vmalert = [
        group
        for name, text in sharded(CLUSTER).items()
        if name != "shard.yaml"
        for group in yaml.safe_load(text)["groups"]
    ]
    assert [group["name"] for group in of_shard] == ["zmon-findings"]
    assert sorted(group["name"] for group in (*of_shard, *of_vmalert)) == sorted({name for name, _ in RULES})
    assert not [rule for group in of_vmalert for rule in group["rules"] if "keep_firing_for" in rule]


def test_rules_record_five_series_of_a_rank():
    """docs/deploy/long-term.md computes the size of the stores with this number."""
    assert len({name for name in RECORDED if name.startswith("zmon:rank_")}) == 5


def test_rules_of_the_shards_read_only_the_page_of_the_hub():
    """A shard does not have the agents of the others, so a rule over agents would see a part of a job."""
    for group in yaml.safe_load(sharded(CLUSTER)["shard.yaml"])["groups"]:
        names = {name for rule in group["rules"] for name in re.findall(r"\b(?:zmon_\w+|up)\b", rule["expr"])}
        assert names == {"zmon_finding", "zmon_hub_last_pass_timestamp_seconds"}


def test_store_of_a_month_keeps_recorded_series_and_jobs_and_nothing_that_is_scraped_from_agents():
    keeps = store_filter("month.yml")
    jobs = {"zmon_job_info", "zmon_job_time_seconds_total", "zmon_job_step_duration_seconds_bucket", "zmon_finding"}
    assert all(map(keeps, RECORDED | jobs | {"ALERTS"}))
    assert not any(
        map(keeps, ("zmon_steps_total", "zmon_rank_info", "zmon_gpu_power_watts", "zmon_jobs_left_out", "up"))
    )


def test_store_of_a_year_keeps_exactly_the_series_of_a_year():
    of_year = {rule["record"] for group, rule in RULES if group == "zmon-year"}
    assert {name for name in RECORDED if store_filter("year.yml")(name)} == of_year


def test_each_store_has_the_filter_of_its_retention():
    """The n-th filter of vmagent is that of the n-th store, and the last store has none."""
    (line,) = [line for line in (FOLDER / "zmon-router.service").read_text().splitlines() if "ExecStart" in line]
    assert re.findall(r"127\.0\.0\.1:(\d+)/", line) == ["8427", "8426", "8428"]
    assert re.findall(r"urlRelabelConfig=/etc/zmon/(\S+)", line) == ["month.yml", "year.yml"]


def test_vmalert_evaluates_all_rules_but_those_of_the_shards():
    """A shard evaluates shard.yaml. Evaluated by vmalert as well, each finding would page twice."""
    files = re.findall(r"-rule=/etc/zmon/rules/(\S+)", (FOLDER / "zmon-vmalert.service").read_text())
    assert set(files) == sharded(CLUSTER).keys() - {"shard.yaml"}
