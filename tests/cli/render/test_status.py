"""Tests of the terminal output of `zmon status` and `zmon doctor`.

The worst finding is first. Unknown values are shown as unknown.
"""

from dataclasses import replace

import pytest

from tests.build import NOW, ended_job, finding, rank_state
from tests.cli.render.build import text_of
from tests.metrics.scene import JOB_VIEW
from zmon.cli.render.status import culprit, doctor_table, job_columns, status_table
from zmon.detectors.new_finding import rank_row
from zmon.doctor import Check
from zmon.job.headline import with_headline
from zmon.schema.evidence import Evidence
from zmon.schema.job import JobView, Progress, TimeLeft
from zmon.schema.pause import HealedPause, Place

UNKNOWN = JobView(
    job_id="fresh", attempt=0, world_size=4, ranks_seen=1, state="init", step=None, step_seconds=None,
    step_seconds_p95=None, samples_per_second=None, report={}, time={}, hosts=("node-a",), labels={}, findings=(),
)  # fmt: skip
HEALTHY = replace(JOB_VIEW, job_id="healthy", findings=())
TIME_LEFT = TimeLeft(seconds=11_400.0, fastest_seconds=10_200.0, slowest_seconds=13_200.0)
PROGRESS = Progress(planned_steps=50_000, step=12_000, left=TIME_LEFT)


def output_of(jobs, findings, blind=False, width=200, now=NOW, as_of=None):
    """Return what `zmon status` shows of jobs and findings; `blind`: the hub reaches no agent."""
    views = [with_headline(job, findings) for job in jobs]
    return text_of(status_table(views, findings, blind, now, as_of), width)


def test_job_is_a_row_with_its_numbers():
    text = output_of([JOB_VIEW], [])
    for part in ("job", "train", "3/4", "100", "20 ms", "1,600", "loss NaN", "no findings"):
        assert part in text


def test_unknown_values_are_shown_as_unknown():
    text = output_of([UNKNOWN], [])
    assert text.count("unknown") == 3
    assert "1/4" in text


def test_progress_is_a_line_below_the_jobs():
    text = output_of([replace(HEALTHY, progress=PROGRESS), HEALTHY], [])
    line = "healthy: step 12,000 of 50,000 (24 %), about 3 h 10 min left (2 h 50 min to 3 h 40 min)"
    assert line in text
    assert text.count(" of 50,000") == 1


def test_pauses_that_healed_are_listed_below_the_jobs_the_longest_first():
    places = [Place("other", f"save() at train.py:{line}") for line in range(3)]
    pauses = (
        HealedPause(Place("data", "read() at loader.py:40"), longest_seconds=6.2, number=4, last_time=NOW),
        *(HealedPause(place, longest_seconds=3.0, number=1, last_time=NOW) for place in places),
    )
    text = output_of([HEALTHY, replace(HEALTHY, job_id="pausing", pauses=pauses)], [])
    assert (
        "pausing: pauses that healed: 6.2 s in data, read() at loader.py:40 (4 times), 3.0 s in other, save() at "
        "train.py:0 (1 time), 3.0 s in other, save() at train.py:1 (1 time) and 1 more"
    ) in text
    assert text.count("pauses that healed") == 1


def test_finding_is_shown_with_culprit_onset_cost_and_next_step():
    stall = finding(lost_gpu_hours=2.5, capsule="/state/incidents/f1", detail="On node-a: `kill -CONT 1002`")
    lines = output_of([JOB_VIEW], [stall], width=80, now=NOW + 190).splitlines()
    assert lines[0] == "STALLED rank_frozen, job job, for 3 min 12 s"
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[1:8]}
    assert rows == {
        "who": "rank 2 on node-a (confidence 97%)",
        "what": "rank 2 on node-a froze",
        "since": "07:59:58 UTC, step 100",
        "cost": "2.5 GPU hours so far",
        "next": "On node-a: `kill -CONT 1002`",
        "runbook": "docs/runbooks.md#rank_frozen",
        "evidence": "`zmon incident f1`, stored in /state/incidents/f1",
    }


def test_findings_and_next_step_fit_into_first_24_lines():
    """The screen has 24 lines, with two findings and four jobs."""
    long = "On node-a: `ps -o pid,stat,wchan:32,cmd -p 1002`; if it was stopped by mistake: `kill -CONT 1002`. " * 2
    warning = finding(id="f2", severity="warning", cause="ranks_missing")
    text = output_of([JOB_VIEW, UNKNOWN, HEALTHY, HEALTHY], [warning, finding(detail=long)], width=80)
    first = "\n".join(text.splitlines()[:24])
    assert first.startswith("STALLED rank_frozen")
    assert "kill -CONT 1002" in first
    assert "WARNING ranks_missing" in first


def with_ranks(*alive):
    """Return a finding whose evidence has these ranks: of each, whether its process lives."""
    rows = tuple(rank_row(rank_state(rank, alive=lives)) for rank, lives in enumerate(alive))
    return finding(evidence=Evidence(ranks=rows))


COSTS = {  # finding, and its cost without known GPU-hours; None: it is left out
    "job of four ranks": (finding(), "4 ranks idle for 3 min 12 s"),
    "four ranks live": (with_ranks(True, True, True, True), "4 ranks idle for 3 min 12 s"),
    "three ranks live": (with_ranks(True, True, True, False), "3 ranks idle for 3 min 12 s"),
    "no rank lives": (with_ranks(False, False, False, False), None),
    "no stall": (finding(detector="coverage"), None),
    "unknown job": (finding(job_id="unknown"), None),
}


@pytest.mark.parametrize(("stall", "cost"), COSTS.values(), ids=COSTS)
def test_stall_without_gpus_costs_the_time_of_its_living_ranks(stall, cost):
    text = " ".join(output_of([JOB_VIEW], [stall], now=NOW + 190).split())
    assert (f"cost {cost}" in text) if cost else ("cost " not in text)


def test_findings_are_sorted_by_severity_and_then_by_onset():
    warning = finding(id="f2", severity="warning", cause="ranks_missing", onset=NOW - 99)
    earlier = finding(id="f3", cause="network_stall", onset=NOW - 50)
    newer = finding(id="f4", severity="fatal", cause="of_a_newer_hub", onset=NOW - 200)
    text = output_of([JOB_VIEW], [warning, newer, finding(), earlier])
    heads = "STALLED network_stall", "CRITICAL rank_frozen", "FATAL of_a_newer_hub", "WARNING ranks_missing"
    order = [text.index(word) for word in heads]
    assert order == sorted(order)
    assert "no findings" not in text


def test_findings_after_the_third_have_a_line_each():
    many = [finding(id=str(n), onset=NOW - n, summary=f"summary {n}") for n in range(10)]
    text = output_of([JOB_VIEW], many)
    assert text.count("who  ") == 3
    assert text.count("summary") == 10


def test_healthy_jobs_are_limited_to_eight_if_there_is_a_finding():
    text = output_of([*[HEALTHY] * 63, JOB_VIEW], [finding()])
    assert text.count("healthy ") == 8
    assert "and 55 jobs without findings" in text
    assert output_of([HEALTHY] * 64, []).count("healthy ") == 64


def test_ages_of_blind_hub_are_those_of_its_last_known_state():
    lines = output_of([JOB_VIEW], [finding(as_of=NOW)], blind=True, now=NOW + 125, as_of=NOW + 5).splitlines()
    assert lines[0].startswith("BLIND: The hub reaches no agent: this is its last known state, as of 08:00:05 UTC.")
    assert "no findings" not in output_of([JOB_VIEW], [], blind=True)
    assert lines[1].endswith("for 7.0 s")
    assert "rank 2 on node-a froze (as of 08:00:00 UTC)" in lines[3]


def test_summary_that_was_just_written_has_the_age_of_the_headline():
    text = output_of([JOB_VIEW], [finding(as_of=NOW + 189)], now=NOW + 190)
    assert "rank 2 on node-a froze" in text
    assert "as of" not in text


@pytest.mark.parametrize(
    ("source", "rate"),
    [("declared", "1,600"), ("", "1,600"), ("loader", "1,600 (inferred)"), ("new", "1,600 (inferred)")],
)
def test_inferred_rate_is_marked(source, rate):
    assert job_columns(replace(JOB_VIEW, samples_source=source))[-1] == rate
    assert job_columns(replace(JOB_VIEW, samples_source=source, samples_per_second=None))[-1] == "unknown"


@pytest.mark.parametrize("state", ["done", "exited"])
def test_job_that_has_ended_has_no_speed(state):
    assert job_columns(replace(JOB_VIEW, state=state)) == (state, "3/4", "100", "–", "–")


def test_output_without_jobs_shows_command_that_starts_job():
    assert "zmon demo" in output_of([], [])


def test_text_from_a_job_is_not_interpreted_as_markup():
    job = replace(JOB_VIEW, job_id="[red]job", report={"[b]loss": 1.0})
    text = output_of([job], [finding(summary="[red]rank[/red] 2 [/]")])
    for part in ("[red]rank[/red] 2 [/]", "[red]job", "[b]loss 1"):
        assert part in text


@pytest.mark.parametrize(
    ("ranks", "hosts", "expected"),
    [
        ((2,), ("node-a",), "rank 2 on node-a"),
        ((2, 3), ("node-a", "node-a"), "ranks 2, 3 on node-a"),
        (tuple(range(20)), ("node-a",), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more on node-a"),
        ((), ("node-b",), "node-b"),
        ((), (), "no culprit known"),
    ],
)
def test_culprit_text_names_ranks_and_hosts(ranks, hosts, expected):
    assert culprit(finding(ranks=ranks, hosts=hosts)) == expected


def test_doctor_prints_a_line_per_check_and_counts_them():
    checks = [
        Check("a", True, "reads"),
        Check("b", False, "is [gone]", "Start it."),
        Check("c", None, "no job runs"),
        Check("d", False, "what is it?", "Run `this`"),
    ]
    lines = [" ".join(line.split()) for line in text_of(doctor_table(checks)).splitlines()]
    assert lines == [
        "armed a reads.", "INERT b is [gone]. Start it.", "absent c no job runs.", "INERT d what is it? Run `this`",
        "1 armed, 2 INERT, 1 absent",
    ]  # fmt: skip


ENDED = replace(
    JOB_VIEW, state="exited", ranks_seen=0, step_seconds=None, samples_per_second=None, findings=(), ended=ended_job()
)


def test_ended_job_is_shown_with_its_age_and_reason():
    lines = output_of([HEALTHY, ENDED], []).splitlines()
    assert "no findings" not in lines[-1]
    end = "ended by rank_exited: rank 2 on node-1 exited at step 118: ValueError: bad sample (1 h ago)"
    assert lines[0] == f"FAILED job job: {end}"
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[1:4]}
    assert rows == {
        "next": "as advised at its end: Read the end of rank 2's log",
        "runbook": "docs/runbooks.md#rank_exited",
        "evidence": "`zmon incident f9`",
    }


def test_end_whose_finding_is_open_is_shown_once():
    text = output_of([ENDED], [finding(id="f9", cause="rank_exited")])
    assert text.startswith("FAILED rank_exited, job job")
    assert "1 h ago" not in text
