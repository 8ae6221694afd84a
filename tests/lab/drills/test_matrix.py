"""Tests of the list of drills, of the draws of their jobs, and of the files of their sessions."""

from collections import Counter
from dataclasses import fields
from itertools import combinations

import pytest
from msgspec.structs import replace

from lab.drills import history
from lab.drills.draw import Pinned, draw_job, job_spec, pin
from lab.drills.matrix import ALL
from lab.drills.session import select_drills
from lab.stage import JobSpec
from tests.lab.drills.build import ROW
from zmon.errors import UsageError
from zmon.schema.names import STALL


def test_first_jobs_of_the_drills_differ():
    draws = [draw_job(drill, 0, 1) for drill in ALL]
    assert len({(draw.kind, draw.step_seconds, draw.ranks) for draw in draws}) > 9


def test_state_silence_and_lease_prove_faults_that_stall_a_job():
    proven = [drill for drill in ALL if not drill.quiet and drill.proof in ("state", "silence", "lease")]
    assert {drill.detector for drill in proven} == {STALL}


@pytest.mark.parametrize("drill", ALL, ids=lambda drill: drill.name)
def test_draw_of_a_job_is_valid_and_repeatable(drill):
    assert set(drill.job) <= {field.name for field in fields(JobSpec)}
    for repeat in range(6):
        draw = draw_job(drill, repeat, 1)
        spec = job_spec(drill, draw, "j")
        assert 0 <= draw.rank < draw.ranks == spec.ranks
        assert draw == draw_job(drill, repeat, 1)


@pytest.mark.parametrize("seed", range(5))
def test_repeats_cover_all_combinations_of_kind_step_length_and_ranks(seed):
    drill = select_drills(ALL, ["rank-killed"])[0]
    draws = [draw_job(drill, repeat, seed) for repeat in range(27)]
    jobs = [(draw.kind, draw.step_seconds, draw.ranks) for draw in draws]
    assert len(set(jobs)) == 27
    for values in zip(*jobs[:3], strict=True):
        assert len(set(values)) == 3
    for values in zip(*jobs[:9], strict=True):
        assert set(Counter(values).values()) == {3}
    for first, second in combinations(range(3), 2):
        assert len({(job[first], job[second]) for job in jobs[:9]}) >= 8  # of nine pairs: no two values correlate


@pytest.mark.parametrize(
    ("name", "pinned", "replaced"),
    [("rank-killed", Pinned("plain", 2, 0.25), True), ("hot-table", Pinned("ddp", 2, None), False)],
)
def test_pin_replaces_the_drawn_values_that_the_drill_supports(name, pinned, replaced):
    (drill,) = select_drills(ALL, [name])
    draw = pin(drill, draw_job(drill, 0, 1), pinned)
    is_replaced = (draw.kind, draw.ranks, draw.step_seconds) == (pinned.kind, pinned.ranks, pinned.step_seconds)
    assert is_replaced is replaced
    assert draw.kind in drill.kinds
    assert draw.ranks in drill.ranks
    assert draw.rank < draw.ranks


def test_session_is_resumed_without_broken_and_half_written_rows(tmp_path):
    head = history.Head(seed=7, repeats=2, drills=("rank-killed",))
    session = history.begin(tmp_path, head)
    session.add(ROW)
    session.add(replace(ROW, repeat=1, broken="the job does not train"))
    with session.path.open("ab") as file:
        file.write(b'{"drill": "half wri')
    resumed = history.newest(tmp_path)
    assert resumed.head == head
    assert resumed.rows == [ROW]  # broken drills are played again
    assert resumed.done == {("rank-killed", 0)}
    resumed.add(replace(ROW, repeat=1))
    assert [row.repeat for row in history.newest(tmp_path).rows] == [0, 1]


def test_missing_or_damaged_session_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no session to resume"):
        history.newest(tmp_path)
    (tmp_path / "drills").mkdir()
    (tmp_path / "drills" / "drills-x.jsonl").write_text('{"schema":1,"seed":1,"repeats":1,"drills":[]}\n{"drill"}\n')
    with pytest.raises(UsageError, match="cannot resume"):
        history.newest(tmp_path)
