"""Tests of random compositions of real jobs: what is drawn, and the truth that is written down."""

import json
import time
from random import Random
from types import SimpleNamespace

import pytest

from lab.drills.compositions import ELEMENTS, compose_drill
from lab.drills.draw import job_spec
from lab.drills.drill import Drill, Injection, Scene
from lab.drills.truth import TrueFault, read_truth, recorded
from lab.faults import sabotage, together
from lab.faults.sabotage import ordered
from lab.faults.together import then
from lab.jobs import command
from tests.build import rank_state
from zmon.errors import ZmonError


def drawn(seed, number, tmp_path):
    composition = compose_drill(seed, number, tmp_path / "truth.jsonl")
    return composition, job_spec(composition.drill, composition.draw, "drill-1")


def test_hundred_compositions_have_every_element(tmp_path):
    made = [drawn(3, number, tmp_path) for number in range(100)]
    names = {composition.drill.name.partition("+")[0] for composition, _ in made[: len(ELEMENTS)]}
    assert names == {element.name for element in ELEMENTS}
    first, second = made[7], drawn(3, 7, tmp_path)  # the same seed and number draw the same job
    assert (first[0].draw, first[0].drill.name, first[1]) == (second[0].draw, second[0].drill.name, second[1])
    assert {spec.launcher for _, spec in made} == {"torchrun", "mpirun", "spawn", "none"}
    assert 5 < sum("+" in composition.drill.name for composition, _ in made) < 40
    assert all(spec.max_restarts == 0 or spec.launcher == "torchrun" for _, spec in made)


def test_second_fault_after_a_harmless_one_is_the_one_to_report(tmp_path):
    pauses = [
        composition.drill
        for number in range(400)
        if (composition := drawn(3, number, tmp_path)[0]).drill.name == "agent-restart+kill"
    ]
    assert pauses
    assert all(drill.causes == ("rank_exited",) and not drill.quiet for drill in pauses)


@pytest.mark.parametrize("launcher", ["mpirun", "spawn", "none"])
def test_job_without_torchrun_has_its_own_launcher(tmp_path, launcher):
    spec = next(s for _, s in (drawn(3, n, tmp_path) for n in range(200)) if s.launcher == launcher)
    assert command(spec, "--standalone")[-4].endswith("without_torchrun.py")
    assert command(spec)[-3:-1] == [launcher, str(spec.ranks)]


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """A drill whose rank 1 is struck, without the pauses between two faults."""
    monkeypatch.setattr(together, "GAP_SECONDS", 0.0)
    monkeypatch.setattr(together, "OBEY_SECONDS", 0.1)
    monkeypatch.setattr(together, "PAUSED_SECONDS", 0.1)
    spec = SimpleNamespace(job_id="drill-1", ranks=2, step_seconds=0.02)
    job = SimpleNamespace(spec=spec, folder=tmp_path, exit_code=lambda: None)
    states = {rank: rank_state(rank) for rank in range(2)}
    return Scene(SimpleNamespace(ranks=lambda job_id: states), job, 1, "node-a", 7, Random(1))


def test_truth_about_each_fault_is_on_disk_before_zmon_is_asked(tmp_path, scene):
    path = tmp_path / "truth.jsonl"
    kill = Drill("kill", "", lambda scene: Injection(1000.0), ("rank_exited",))
    reset = Drill("reset", "", lambda scene: Injection(1001.0), ("connection_lost",), culprit="none")
    then(recorded(kill, path), recorded(reset, path))(scene)
    assert read_truth(path, "drill-1", 900.0) == (
        TrueFault("drill-1", "kill", 1, "node-a", 1000.0, ("rank_exited",)),
        TrueFault("drill-1", "reset", None, "node-a", 1001.0, ("connection_lost",)),
    )


def test_report_is_due_from_the_fault_after_a_harmless_event(scene):
    first, second = (lambda scene, onset=onset: Injection(onset) for onset in (1000.0, 1016.0))
    assert then(first, second, is_first_harmless=True)(scene).onset == 1016.0
    assert then(first, second)(scene).onset == 1000.0


def test_second_fault_lasts_although_the_first_one_cannot_be_lifted(scene):
    lifted = []
    pause, stop = Injection(1000.0), Injection(1001.0, lambda: lifted.append("stop"))
    injection = then(lambda scene: pause, lambda scene: stop, is_first_harmless=True)(scene)
    assert (injection.lift, lifted) == (None, [])


def test_second_fault_after_a_harmless_event_is_never_left_out(scene):
    with pytest.raises(ZmonError, match="did not obey 'exit_zero'"):
        then(lambda scene: Injection(1000.0), ordered("exit_zero"), is_first_harmless=True)(scene)


def test_truth_of_an_earlier_session_with_the_same_job_name_is_left_out(tmp_path, scene):
    path = tmp_path / "truth.jsonl"
    for onset in (100.0, 1000.0):
        recorded(Drill("kill", "", lambda scene, onset=onset: Injection(onset)), path)(scene)
    assert [fault.time for fault in read_truth(path, "drill-1", 900.0)] == [1000.0]


def test_second_fault_that_a_stopped_job_does_not_obey_is_left_out(tmp_path, scene):
    path = tmp_path / "truth.jsonl"
    stop = Drill("stop", "", lambda scene: Injection(1000.0), ("rank_frozen",))
    lock = Drill("lock", "", ordered("deadlock"), ("compute_hang",))
    begin = time.monotonic()
    injection = then(recorded(stop, path), recorded(lock, path))(scene)
    assert time.monotonic() - begin < sabotage.OBEY_SECONDS / 2  # it has less time than a first fault
    assert injection.others == ()
    assert [fault.fault for fault in read_truth(path, "drill-1", 0.0)] == ["stop"]
    assert json.loads((tmp_path / "orders.json").read_text()) == []
