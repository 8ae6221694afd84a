"""Tests of playing a drill on a fake stage.

Findings and pages are scripted, and the clock moves only when the drill sleeps.
"""

from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from msgspec import structs

from lab.drills import play as playing
from lab.drills import quiet_play
from lab.drills.draw import Draw
from lab.drills.drill import Drill, Injection
from lab.faults import sabotage
from lab.stage import ReceivedPage
from tests.build import finding, rank_state
from tests.lab.drills.build import ACT, ONSET
from zmon.errors import PartFailed

DRAW = Draw(repeat=0, seed=1, kind="ddp", ranks=4, step_seconds=0.02, rank=2)
QUIET = Drill("fewer-ranks", "", lambda scene: Injection(ONSET), begins="starting", may_warn=("rank_exited",))


class FakeStage:
    """A stage with scripted findings and pages; each is visible from its time on."""

    def __init__(self, folder, clock):
        self.folder, self._clock = folder, clock
        self.reports = []
        self.alerts = []
        self.healthy_from = {}
        self.ended = []
        self.resolves = True
        self.policy, self.acts = None, ()
        self.name, self.witnesses = "host", ("hub", "prometheus", "alertmanager")

    def report(self, time=ONSET + 1, sibling="", number=None, **fields):
        """Report a finding; `number` is that of an earlier one, which it replaces from then on."""
        self.reports.append((time, sibling, len(self.reports) if number is None else number, fields))

    def fire(self, alert="ZmonStall", time=ONSET + 2, severity="critical", detector="stall", sibling=""):
        self.alerts.append((time, alert, severity, detector, sibling))

    def start(self, spec):
        self.spec = spec
        ends = {"exit_code": lambda: None, "end": lambda: self.ended.append(spec.job_id)}
        return SimpleNamespace(spec=spec, folder=self.folder, **ends)

    def ranks(self, job_id):
        return {rank: rank_state(rank, job_id=job_id, activity="init") for rank in range(4)}

    def findings(self, job_id, active=True):
        now = self._clock.time()
        current = {}
        for time, sibling, number, fields in self.reports:
            if time <= now:
                job = self.spec.job_id + sibling
                detected = current[number].detected if number in current else time
                current[number] = finding(id=str(number), job_id=job, detected=detected, **fields)
        if active and self.resolves:
            return []
        return [f for f in current.values() if job_id in (None, f.job_id)]

    def published(self, job_id):
        return ()

    def intents(self):
        return self.acts

    def forget_acts(self):
        pass

    def pages(self):
        return [
            ReceivedPage(
                time, alert, "firing", severity, self.spec.job_id + sibling, "", {"detector": detector}, str(number), ""
            )
            for number, (time, alert, severity, detector, sibling) in enumerate(self.alerts)
            if time <= self._clock.time()
        ]

    def query(self, promql):
        assert promql.startswith("timestamp(up) > ")
        return [{}] if self.is_healthy("prometheus") else []

    def is_healthy(self, part):
        return self._clock.time() >= self.healthy_from.get(part, 0.0)


@pytest.fixture
def stage(monkeypatch, tmp_path):
    now = [ONSET - 1]

    def sleep(seconds):
        now[0] += seconds

    clock = SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(playing, "time", clock)
    monkeypatch.setattr(quiet_play, "time", clock)
    monkeypatch.setattr(sabotage, "time", clock)
    return FakeStage(tmp_path, clock)


def play_rank_frozen(stage, fault=lambda scene: Injection(ONSET), **changes):
    drill = Drill("rank-frozen", "", fault, ("rank_frozen",), "stall", proof="state", begins="starting")
    return playing.play(replace(drill, **changes), stage, DRAW)


def test_finding_and_page_in_time_are_as_expected(stage):
    stage.report()
    stage.fire()
    row = play_rank_frozen(stage)
    assert row.as_expected
    assert row.finding_seconds == pytest.approx(1.0, abs=0.1)
    assert row.page_seconds == pytest.approx(1.0, abs=0.1)
    assert stage.ended == [row.job]
    assert stage.spec.job_id.startswith("drill-")  # no hint of the drill
    assert stage.spec.job_id.removeprefix("drill-").isdecimal()


def play_with_policy(stage, acts, **changes):
    stage.policy = stage.folder / "policy.yaml"
    stage.acts = acts
    stage.report()
    return play_rank_frozen(stage, lambda scene: Injection(ONSET, lift=lambda: None), **changes)


def act_of_next_job(**changes):
    """An act about the job of the next play."""
    return structs.replace(ACT, job_id=f"drill-{next(playing._numbers) + 1}", time=ONSET + 2, **changes)


def test_fault_is_not_lifted_after_an_act_about_the_struck_rank(stage):
    act = act_of_next_job()
    row = play_with_policy(stage, (act, structs.replace(act, job_id="drill-0"), structs.replace(act, result="refused")))
    assert row.acts == (act,)
    assert row.result == "right"
    assert not row.lifted


def test_diagnosis_is_that_of_the_time_before_the_act(stage):
    stage.policy, stage.acts = stage.folder / "policy.yaml", (act_of_next_job(),)
    stage.report()
    stage.report(time=ONSET + 2, number=0, cause="rank_exited")
    assert play_rank_frozen(stage).reported_cause == "rank_frozen"


def test_act_about_something_harmless_is_a_wrong_act(stage):
    stage.policy, stage.acts = stage.folder / "policy.yaml", (act_of_next_job(),)
    assert playing.play(QUIET, stage, DRAW).result == "wrong act"


def test_play_is_broken_if_the_hub_does_not_say_what_it_did(stage):
    assert play_with_policy(stage, None).broken.startswith("the hub did not say what it did")


def test_drill_that_an_act_would_end_too_early_is_skipped(stage):
    assert play_with_policy(stage, (), with_acts=False).skipped


DIVERGED = {"alert": "ZmonFindingCritical", "detector": "divergence"}
STRAGGLER = {"detector": "straggler", "cause": "compute_straggler", "severity": "warning"}


@pytest.mark.parametrize(
    ("reports", "alert", "changes", "remark"),
    [
        ([{}], {"time": ONSET + 8}, {}, "the page was late"),
        ([{}], {"time": ONSET + 60}, {}, "no page"),
        ([{}], DIVERGED, {}, "no page about the finding, but ZmonFindingCritical"),
        ([{}, STRAGGLER], {}, {}, "compute_straggler was reported as well"),
        ([{"evidence": {"device": "GPU-1"}}], {}, {"evidence": ("GPU-{rank}",)}, "the evidence lacks GPU-2"),
    ],
)
def test_drill_that_is_not_as_expected_has_a_remark(stage, reports, alert, changes, remark):
    for fields in reports:
        stage.report(**fields)
    stage.fire(**alert)
    assert play_rank_frozen(stage, **changes).remarks == (remark,)


def play_loader_hang(stage, **fields):
    """Play a drill whose finding is a warning; it has the other fields from 20.5 s after the onset on."""
    causes = {"cause": "input_stall", "ranks": (2,)}
    stage.report(severity="warning", **causes)
    stage.report(time=ONSET + 20.5, number=0, **causes, **fields)
    return play_rank_frozen(stage, causes=("input_stall",), proof="silence")


def test_page_counts_from_the_moment_when_the_finding_is_critical(stage):
    stage.fire("ZmonFindingWarning", severity="warning", time=ONSET + 3)
    stage.fire(time=ONSET + 22)
    row = play_loader_hang(stage, severity="critical")
    assert row.as_expected, row.remarks
    assert row.finding_seconds == pytest.approx(1.0, abs=0.1)
    assert row.critical_seconds == pytest.approx(20.5, abs=0.1)
    assert row.critical_target_seconds == pytest.approx(21.02)
    assert row.page_seconds == pytest.approx(1.5, abs=0.1)
    assert (row.paged, row.warned) == (("ZmonStall",), ("ZmonFindingWarning",))


@pytest.mark.parametrize("fields", [{"severity": "warning"}, {"severity": "warning", "resolved": ONSET + 20.5}])
def test_silence_that_never_becomes_critical_is_a_remark(stage, fields):
    stage.fire("ZmonFindingWarning", severity="warning", time=ONSET + 3)
    row = play_loader_hang(stage, **fields)
    assert row.remarks[0] == "it did not become critical"
    assert not row.as_expected
    assert row.critical_seconds is None


def test_finding_from_the_time_in_which_the_second_fault_was_awaited_counts_from_its_opening(stage):
    def fault(scene):
        sabotage.time.sleep(9.0)
        return Injection(ONSET)

    stage.report(time=ONSET + 1)
    assert play_rank_frozen(stage, fault).finding_seconds == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("hosts", "ranks", "is_right"),
    [(("node-a", "node-b"), (), True), (("node-a",), (), False), (("node-a", "node-b"), (2,), False)],
    ids=["both hosts", "one host", "a rank"],
)
def test_culprit_of_a_struck_pair_is_both_hosts_and_no_rank(stage, hosts, ranks, is_right):
    stage.report(hosts=hosts, ranks=ranks)
    row = play_rank_frozen(stage, lambda scene: Injection(ONSET, host="node-b", peer="node-a"), culprit="pair")
    assert row.culprit_right == is_right


def test_page_during_the_wait_for_the_resolve_is_late(stage):
    stage.report()
    stage.fire(time=ONSET + 30)
    stage.resolves = False
    row = play_rank_frozen(stage, lambda scene: Injection(ONSET, lambda: None))
    assert row.page_seconds == pytest.approx(29.0, abs=0.1)
    assert row.remarks == ("the page was late", "the finding did not resolve in time")


def test_page_delay_counts_from_the_first_scrape_of_prometheus(stage):
    stage.report()
    stage.fire(time=ONSET + 10)
    stage.healthy_from["prometheus"] = ONSET + 7
    row = play_rank_frozen(stage, lambda scene: Injection(ONSET, unscraped=True))
    assert row.page_seconds == pytest.approx(3.0, abs=0.1)
    assert row.as_expected


def test_permitted_cause_may_be_a_warning_but_not_critical(stage):
    stage.report()
    stage.report(detector="coverage", cause="agent_unreachable", severity="warning")
    stage.fire()
    assert play_rank_frozen(stage, may_warn=("agent_unreachable",)).as_expected
    stage.report(detector="coverage", cause="agent_unreachable", severity="critical")
    assert play_rank_frozen(stage, may_warn=("agent_unreachable",)).beside == ("agent_unreachable",)


def test_job_that_stands_still_is_awaited(stage):
    stage.report(severity="warning", cause="unknown")
    stage.report(time=ONSET + 18, number=0, severity="critical")
    stage.fire("ZmonFindingWarning", severity="warning")
    stage.fire(time=ONSET + 20)
    assert play_rank_frozen(stage).paged == ("ZmonStall",)


def test_late_report_about_a_job_that_stands_still_is_not_a_missed_one(stage):
    stage.report(time=ONSET + 15)
    stage.fire(time=ONSET + 17)
    assert play_rank_frozen(stage).result == "late"


EXITED, WARNED = {"cause": "rank_exited"}, {"cause": "rank_exited", "severity": "warning"}
TWICE = [{"time": time, **WARNED} for time in (ONSET + 1, ONSET + 5)]
PAUSED = [*TWICE, {"time": ONSET + 6, "cause": "rank_exited", "severity": "info"}]
AGENT_DOWN = {"alert": "ZmonAgentDown", "severity": "warning", "detector": ""}
QUIET_PLAYS = {  # findings, alerts, the most warnings that the drill permits, and the result with its criticals
    "only a permitted warning": ([WARNED], [{"alert": "ZmonFindingWarning", "severity": "warning"}], None, "quiet", ()),
    "any number of warnings": (PAUSED, [], None, "quiet", ()),
    "as many warnings as permitted": (PAUSED, [], 2, "quiet", ()),
    "more warnings than permitted": (PAUSED, [], 1, "false warning", ()),
    "critical finding": ([{**EXITED, "severity": "critical"}, WARNED], [], None, "false page", ("rank_exited",)),
    "warning alert": ([], [AGENT_DOWN], None, "false warning", ()),
    "job that the drill started": ([{"sibling": "-2", "cause": "x"}], [], None, "false page", ("x",)),
    "job of another drill": ([{"sibling": "0"}], [{"sibling": "0"}], None, "quiet", ()),  # drill-10 is not of drill-1
}


@pytest.mark.parametrize(
    ("reports", "alerts", "max_warnings", "result", "critical"), QUIET_PLAYS.values(), ids=QUIET_PLAYS
)
def test_result_of_a_quiet_drill(stage, reports, alerts, max_warnings, result, critical):
    for fields in reports:
        stage.report(**fields)
    for fields in alerts:
        stage.fire(**fields)
    row = playing.play(replace(QUIET, max_warnings=max_warnings), stage, DRAW)
    assert (row.result, row.critical) == (result, critical)
    assert row.as_expected == (result == "quiet")


@pytest.mark.parametrize("part", ["hub", "prometheus", "alertmanager"])
def test_drill_is_broken_if_a_part_of_the_stack_does_not_answer(stage, part):
    stage.healthy_from[part] = ONSET + 600
    row = playing.play(QUIET, stage, DRAW)
    assert row.result == "broken"
    assert f"{part} did not answer" in row.broken


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PartFailed("the hub does not run"), "the hub does not run"),
        (psutil.NoSuchProcess(7), "NoSuchProcess: "),
        (KeyError("result"), "KeyError: 'result'"),
    ],
)
def test_fault_that_raises_makes_the_drill_broken(stage, error, text):
    def fault(scene):
        raise error

    row = play_rank_frozen(stage, fault)
    assert row.broken.startswith(text)
    assert stage.ended == [row.job]
