"""Tests of the matrix of recoveries: its cells, its table, and sessions that resume."""

import contextlib
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from bench.recovery import matrix
from bench.recovery.cells import FAULTS, JOBS, MAX_RESTARTS, Cell, cells
from bench.recovery.policy import POLICY
from tests.lab.drills.build import ACT, ONSET, ROW, STOP

FROZEN = Cell("frozen", "trainer", 2, 0.02)
KILLED = Cell("killed", "handler", 4, 0.25)
ACTED = replace(
    ROW, drill=str(FROZEN), kind="trainer", finding_seconds=0.6, severity="critical", truth=(STOP,), acts=(ACT,),
    again_seconds=6.0, restarted=True,
)  # fmt: skip


def test_every_combination_is_a_cell():
    assert len({str(cell) for cell in cells(["*"])}) == len(FAULTS) * len(JOBS) * 2 * 2


def test_pattern_chooses_cells():
    assert [*map(str, cells(["frozen/*/2/0.02"]))] == [f"frozen/{job}/2/0.02" for job in JOBS]
    assert [*cells(["no-such/*"])] == []


def test_drill_of_a_cell_has_its_job_and_restarts():
    assert KILLED.drill.job == {"max_restarts": MAX_RESTARTS, "handles_term": True}
    assert KILLED.drill.causes == ("rank_exited",)
    draw = KILLED.draw(1, 1)
    assert (draw.kind, draw.ranks, draw.step_seconds, draw.rank) == ("ddp", 4, 0.25, 2)


def table(*rows):
    """Return the lines of the table of these rows, without its heading."""
    return [line for line in matrix.lines(rows) if line.startswith("| ")][1:]


def test_line_of_a_cell_has_each_moment_and_who_mends_it():
    slower = replace(ACTED, repeat=1, again_seconds=8.0)
    assert table(ACTED, slower) == [
        "| frozen | trainer | 2 | 20 ms | 2 | 0.60 | 0.60 | 1.00 | 6.00 | 8.00 | 7.40 | act | 0 | 0 |"
    ]


def test_fault_of_several_cells_has_a_line_for_all_of_them():
    other = replace(ACTED, drill=str(Cell("frozen", "ddp", 2, 0.02)), again_seconds=None)
    assert [line.split(" | ")[1] for line in table(ACTED, other)] == ["trainer", "ddp", "all"]
    assert table(ACTED, other)[-1].endswith("| act | 1 | 0 |")


def test_restart_without_a_finding_leaves_its_moments_empty():
    row = replace(ROW, drill=str(KILLED), reported_cause=None, finding_seconds=None, severity=None, again_seconds=5.0)
    assert table(row) == ["| killed | handler | 4 | 250 ms | 1 |  |  |  | 5.00 | 5.00 |  | torchrun | 0 | 0 |"]


def test_wrong_acts_of_plays_that_did_not_break_are_counted():
    wrong = replace(ACTED, acts=(replace(ACT, ranks=(0,)),))
    broken = replace(ACTED, repeat=1, broken="it did not train")
    assert table(wrong, broken)[0].endswith("| act | 0 | 1 |")
    assert [*matrix.lines([broken])][-1] == f"- {FROZEN}, repeat 1: it did not train"


@pytest.fixture
def plays(monkeypatch):
    """The plays so far, each with the name of its cell, the repeat and the policy of the stage; no job is started."""
    played = []

    def play(drill, stage, draw):
        played.append((drill.name, draw.repeat, stage.policy))
        return replace(ACTED, drill=drill.name, repeat=draw.repeat, time=ONSET)

    def open_stage(name, folder, policy):
        return contextlib.nullcontext(SimpleNamespace(policy=policy))

    monkeypatch.setattr(matrix, "play", play)
    monkeypatch.setattr(matrix, "open_stage", open_stage)
    return played


def test_session_resumes_with_its_cells_and_policy(plays, tmp_path, capsys):
    words = ["--data-dir", str(tmp_path)]
    assert matrix.main([*words, "--cells", "frozen/*/2/0.02", "--repeats", "1"]) == 0
    assert [name for name, _, _ in plays] == [f"frozen/{job}/2/0.02" for job in JOBS]
    policy = plays[0][2]
    assert policy.read_text() == POLICY
    (session,) = (tmp_path / "drills").glob("recovery-*.jsonl")
    session.write_text("".join(session.read_text().splitlines(keepends=True)[:-1]))
    assert matrix.main([*words, "--resume"]) == 0
    assert plays[len(JOBS) :] == [("frozen/handler/2/0.02", 0, policy)]
    assert capsys.readouterr().out.count("| frozen | all |") == 2


def test_without_acts_the_stage_has_no_policy(plays, tmp_path):
    matrix.main(["--data-dir", str(tmp_path), "--cells", "killed/ddp/2/0.02", "--repeats", "1", "--without-acts"])
    assert plays == [("killed/ddp/2/0.02", 0, None)]


def test_resume_without_a_session_is_an_error(plays, tmp_path, capsys):
    assert matrix.main(["--data-dir", str(tmp_path), "--resume"]) == 1
    assert "there is no session to resume" in capsys.readouterr().err
