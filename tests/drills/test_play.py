"""What a drill makes of what it is told: on a stage that only says so, by a clock that only sleep moves."""

from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest

from tests.build import finding, rank_state
from zmon.drills import play as playing
from zmon.drills.casting import Cast
from zmon.drills.drill import Drill, Strike
from zmon.drills.faults import sabotage
from zmon.drills.stage import ReceivedPage
from zmon.errors import PartFailed

ONSET = 1000.0
PART = Cast(repeat=0, seed=1, kind="ddp", ranks=4, step_seconds=0.02, rank=2)
QUIET = Drill("fewer-ranks", "", lambda scene: Strike(ONSET), begins="starting", may_warn=("rank_exited",))


class Stage:
    """Says what it was given, from the moments on that were given."""

    def __init__(self, folder, clock):
        self.folder, self._clock = folder, clock
        self.said, self.rang, self.back, self.ended = [], [], {}, []
        self.resolves = True

    def find(self, at=ONSET + 1, sibling="", **what):
        self.said.append((at, sibling, what))

    def ring(self, alert="ZmonStall", at=ONSET + 2, severity="critical", detector="stall", sibling=""):
        self.rang.append((at, alert, severity, detector, sibling))

    def start(self, spec):
        self.spec = spec
        return SimpleNamespace(
            spec=spec, folder=self.folder, exit_code=lambda: None, end=lambda: self.ended.append(spec.job_id)
        )

    def ranks(self, job_id):
        return {rank: rank_state(rank, job_id=job_id, activity="init") for rank in range(4)}

    def findings(self, job_id, active=True):
        now = self._clock.time()
        every = [
            finding(id=str(number), job_id=self.spec.job_id + sibling, detected=at, **what)
            for number, (at, sibling, what) in enumerate(self.said)
            if at <= now
        ]
        return [f for f in every if job_id in (None, f.job_id) and not (active and self.resolves)]

    def pages(self):
        return [
            ReceivedPage(
                at, alert, "firing", severity, self.spec.job_id + sibling, "", {"detector": detector}, str(number), ""
            )
            for number, (at, alert, severity, detector, sibling) in enumerate(self.rang)
            if at <= self._clock.time()
        ]

    def query(self, promql):
        assert promql.startswith("timestamp(up) > ")
        return [{}] if self.answers("prometheus") else []

    def answers(self, part):
        return self._clock.time() >= self.back.get(part, 0.0)


@pytest.fixture
def stage(monkeypatch, tmp_path):
    now = [ONSET - 1]

    def sleep(seconds):
        now[0] += seconds

    clock = SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(playing, "time", clock)
    monkeypatch.setattr(sabotage, "time", clock)
    return Stage(tmp_path, clock)


def frozen(stage, fault=lambda scene: Strike(ONSET), **changes):
    drill = Drill("rank-frozen", "", fault, ("rank_frozen",), "stall", proof="state", begins="starting")
    return playing.play(replace(drill, **changes), stage, PART)


def test_finding_and_page_about_it_in_time(stage):
    stage.find()
    stage.ring()
    row = frozen(stage)
    assert row.as_expected
    assert row.finding_seconds == pytest.approx(1.0, abs=0.1)
    assert row.page_seconds == pytest.approx(1.0, abs=0.1)
    assert stage.ended == [row.job]


def test_the_name_of_the_job_tells_nothing(stage):
    assert frozen(stage).job == stage.spec.job_id
    assert stage.spec.job_id.startswith("drill-")
    assert stage.spec.job_id.removeprefix("drill-").isdecimal()


@pytest.mark.parametrize(("at", "remark"), [(ONSET + 8, "the page was late"), (ONSET + 60, "no page")])
def test_page_that_comes_late_or_never_is_not_in_time(stage, at, remark):
    stage.find()
    stage.ring(at=at)
    assert frozen(stage).remarks == (remark,)


def test_page_that_comes_while_the_end_is_awaited_is_late(stage):
    stage.find()
    stage.ring(at=ONSET + 30)
    stage.resolves = False
    row = frozen(stage, lambda scene: Strike(ONSET, lambda: None))
    assert row.page_seconds == pytest.approx(29.0, abs=0.1)
    assert row.remarks == ("the page was late", "it did not resolve in time")


def test_page_about_another_finding_is_not_about_this_one(stage):
    stage.find()
    stage.ring("ZmonFindingCritical", detector="divergence")
    assert frozen(stage).remarks == ("no page about it, but ZmonFindingCritical",)


def test_page_is_due_from_when_prometheus_scrapes_again(stage):
    stage.find()
    stage.ring(at=ONSET + 10)
    stage.back["prometheus"] = ONSET + 7
    row = frozen(stage, lambda scene: Strike(ONSET, unscraped=True))
    assert row.page_seconds == pytest.approx(3.0, abs=0.1)
    assert row.as_expected


def test_what_is_blamed_beside_the_fault_is_told(stage):
    stage.find()
    stage.find(detector="straggler", cause="compute_straggler", severity="warning")
    stage.ring()
    assert frozen(stage).remarks == ("compute_straggler was blamed beside it",)


def test_what_is_true_as_well_may_be_warned_of_beside_it_and_no_more(stage):
    stage.find()
    stage.find(detector="coverage", cause="agent_unreachable", severity="warning")
    stage.ring()
    assert frozen(stage, may_warn=("agent_unreachable",)).as_expected
    stage.find(detector="coverage", cause="agent_unreachable", severity="critical")
    assert frozen(stage, may_warn=("agent_unreachable",)).beside == ("agent_unreachable",)


def test_evidence_has_to_name_the_struck_one(stage):
    stage.find(evidence={"device": "GPU-1"})
    stage.ring()
    assert frozen(stage, evidence=("GPU-{rank}",)).remarks == ("the evidence lacks GPU-2",)


def test_quiet_when_only_what_may_be_warned_of_is(stage):
    stage.find(cause="rank_exited", severity="warning")
    stage.ring("ZmonFindingWarning", severity="warning")
    assert playing.play(QUIET, stage, PART).as_expected


def test_critical_finding_is_no_warning_however_it_is_excused(stage):
    stage.find(cause="rank_exited", severity="critical")
    stage.find(cause="rank_exited", severity="warning")
    row = playing.play(QUIET, stage, PART)
    assert (row.verdict, row.critical) == ("false page", ("rank_exited",))


def test_warning_that_rang_is_told(stage):
    stage.ring("ZmonAgentDown", severity="warning", detector="")
    row = playing.play(QUIET, stage, PART)
    assert (row.verdict, row.warned) == ("false warning", ("ZmonAgentDown",))


def test_what_is_found_in_a_job_that_was_started_beside_it_counts(stage):
    stage.find(sibling="-2", cause="compute_hang")
    assert playing.play(QUIET, stage, PART).critical == ("compute_hang",)


def test_quiet_when_it_is_found_in_another_job(stage):
    stage.find(sibling="0")  # drill-10 is nothing of drill-1
    stage.ring(sibling="0")
    assert playing.play(QUIET, stage, PART).as_expected


@pytest.mark.parametrize("part", ["hub", "prometheus", "alertmanager"])
def test_nobody_knows_whether_it_was_quiet_when_a_part_does_not_answer(stage, part):
    stage.back[part] = ONSET + 600
    row = playing.play(QUIET, stage, PART)
    assert row.verdict == "broken"
    assert f"{part} did not answer" in row.broken


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PartFailed("the hub does not run"), "the hub does not run"),
        (psutil.NoSuchProcess(7), "NoSuchProcess: "),
        (KeyError("result"), "KeyError: 'result'"),
    ],
)
def test_a_drill_that_cannot_be_played_to_its_end_ends_no_session(stage, error, says):
    def fault(scene):
        raise error

    row = frozen(stage, fault)
    assert row.broken.startswith(says)
    assert stage.ended == [row.job]
