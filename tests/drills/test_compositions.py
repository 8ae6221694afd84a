"""Tests of random compositions of real jobs: what is drawn, and the truth that is written down."""

from types import SimpleNamespace

import msgspec
import pytest

from zmon.drills.compositions import ELEMENTS, compose_drill
from zmon.drills.draw import job_spec
from zmon.drills.drill import Drill, Injection
from zmon.drills.faults.together import TrueFault, recorded
from zmon.drills.jobs import command


def drawn(seed, number, tmp_path):
    composition = compose_drill(seed, number, tmp_path / "truth.jsonl")
    return composition, job_spec(composition.drill, composition.draw, "drill-1")


def test_numbers_go_through_all_elements(tmp_path):
    names = {drawn(3, number, tmp_path)[0].drill.name.partition("+")[0] for number in range(len(ELEMENTS))}
    assert names == {element.name for element in ELEMENTS}


def test_same_seed_and_number_draw_the_same_job(tmp_path):
    first, second = (drawn(3, 7, tmp_path) for _ in range(2))
    assert (first[0].draw, first[0].drill.name, first[1]) == (second[0].draw, second[0].drill.name, second[1])


def test_hundred_compositions_have_every_launcher_and_some_second_faults(tmp_path):
    made = [drawn(3, number, tmp_path) for number in range(100)]
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


def test_truth_is_on_disk_before_zmon_is_asked(tmp_path):
    drill = Drill("kill", "", lambda scene: Injection(1000.0, others=(3,)))
    scene = SimpleNamespace(
        rank=1, host="node-a", job=SimpleNamespace(spec=SimpleNamespace(job_id="drill-1")), stage=None
    )
    recorded("kill+stop", drill.fault, tmp_path / "truth.jsonl")(scene)
    lines = (tmp_path / "truth.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=TrueFault) for line in lines] == [
        TrueFault("drill-1", "kill+stop", 1, "node-a", 1000.0),
        TrueFault("drill-1", "kill+stop", 3, "node-a", 1000.0),
    ]
