"""The list of drills: it can be played, and says what it expects."""

from collections import Counter
from dataclasses import fields, replace
from itertools import combinations

import pytest

from tests.drills.test_score import ROW
from zmon.drills import ALL, history
from zmon.drills.casting import Pinned, cast, job_spec, pin
from zmon.drills.session import named
from zmon.drills.stage import JobSpec
from zmon.errors import UsageError


def test_names_are_unique():
    names = [drill.name for drill in ALL]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("drill", ALL, ids=lambda drill: drill.name)
def test_a_drill_can_be_cast(drill):
    assert set(drill.job) <= {field.name for field in fields(JobSpec)}
    for repeat in range(6):
        part = cast(drill, repeat, 1)
        spec = job_spec(drill, part, "j")
        assert 0 <= part.rank < part.ranks == spec.ranks
        assert part == cast(drill, repeat, 1)


@pytest.mark.parametrize("seed", range(5))
def test_repeats_take_kinds_lengths_and_ranks_in_turn_and_each_with_each(seed):
    drill = named(ALL, ["rank-killed"])[0]
    parts = [cast(drill, repeat, seed) for repeat in range(27)]
    jobs = [(part.kind, part.step_seconds, part.ranks) for part in parts]
    assert len(set(jobs)) == 27
    for values in zip(*jobs[:3], strict=True):
        assert len(set(values)) == 3
    for values in zip(*jobs[:9], strict=True):
        assert set(Counter(values).values()) == {3}
    for one, other in combinations(range(3), 2):
        assert len({(job[one], job[other]) for job in jobs[:9]}) >= 8  # of nine pairs: nothing turns in lockstep


def test_drills_differ_in_which_job_they_begin_with():
    firsts = {(part.kind, part.step_seconds, part.ranks) for part in (cast(drill, 0, 1) for drill in ALL)}
    assert len(firsts) > 9


def test_no_word_of_evidence_is_given_of_every_rank_alike():
    throttled = named(ALL, ["throttled"])[0]
    assert [word.format(rank=3) for word in throttled.evidence] == ["GPU-3"]


def test_what_is_pinned_is_not_drawn():
    drill = named(ALL, ["rank-killed"])[0]
    part = pin(drill, cast(drill, 0, 1), Pinned("plain", 2, 0.25))
    assert (part.kind, part.ranks, part.step_seconds) == ("plain", 2, 0.25)
    assert part.rank < 2


def test_a_drill_is_not_pinned_to_what_it_cannot_be_played_with():
    drill = named(ALL, ["hot-table"])[0]
    part = pin(drill, cast(drill, 0, 1), Pinned("ddp", 2, None))
    assert part.kind in drill.kinds
    assert part.ranks in drill.ranks


def test_unknown_name_is_refused_by_name():
    with pytest.raises(UsageError, match="no drill 'no-such'"):
        named(ALL, ["no-such"])


def test_a_session_goes_on_where_it_ended(tmp_path):
    head = history.Head(seed=7, repeats=2, drills=("rank-killed",))
    session = history.begin(tmp_path, head)
    session.add(ROW)
    session.add(replace(ROW, repeat=1, broken="the job does not train"))
    with session.path.open("ab") as file:
        file.write(b'{"drill": "half wri')
    again = history.newest(tmp_path)
    assert again.head == head
    assert again.rows == [ROW]  # what was broken is played again
    assert again.done == {("rank-killed", 0)}
    again.add(replace(ROW, repeat=1))
    assert [row.repeat for row in history.newest(tmp_path).rows] == [0, 1]


def test_no_session_to_go_on_with_is_said(tmp_path):
    with pytest.raises(UsageError, match="no session to resume"):
        history.newest(tmp_path)


def test_a_damaged_session_is_refused(tmp_path):
    (tmp_path / "drills").mkdir()
    (tmp_path / "drills" / "drills-x.jsonl").write_text('{"schema":1,"seed":1,"repeats":1,"drills":[]}\n{"drill"}\n')
    with pytest.raises(UsageError, match="cannot resume"):
        history.newest(tmp_path)
