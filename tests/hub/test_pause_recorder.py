"""Tests of which pauses count as healed: all ranks of the launch live and have finished a step since."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import killed, rank_state, snapshot, waiting
from tests.detectors.stalls import stopped
from zmon.detectors.stall import Stall
from zmon.hub.pauses import MAX_PLACES, PauseRecorder, PauseStore
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.pause import Place
from zmon.schema.rank import RankState

PLACE = Place("data", "read() at loader.py:40")


class Scene:
    """A recorder behind the stall detector, pass by pass."""

    def __init__(self, folder: Path) -> None:
        self.recorder = PauseRecorder(PauseStore(folder))

    def make_pass(self, *ranks: RankState, frames: dict[int, str] | None = None) -> Snapshot:
        """Let the recorder observe these ranks, with the innermost frame of their stacks; return the job."""
        job = replace(snapshot(*ranks), frames=frames or {})
        job = replace(job, pauses=self.recorder.pauses(job))
        self.recorder.observe(job, Stall().detect(job))
        return job

    def learned(self) -> dict[Place, float]:
        """Return the longest pause in seconds, by place."""
        job = snapshot(*map(rank_state, range(4)))
        return {pause.place: pause.longest_seconds for pause in self.recorder.pauses(job)}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A recorder that knows no pause."""
    return Scene(tmp_path)


def pause(seconds: float, **changes: object) -> list[RankState]:
    """Return a job that waits for the loader of rank 2."""
    loading = waiting(2, seconds, in_flight=None, phase="data", **changes)
    return [waiting(0, seconds, **changes), waiting(1, seconds, **changes), loading, waiting(3, seconds, **changes)]


def moving(steps: int = 101, **changes: object) -> list[RankState]:
    """Return a job that trains; its ranks have finished so many steps, by default one since `pause`."""
    return [rank_state(rank, steps=steps, **changes) for rank in range(4)]


FRAMES = {2: PLACE.frame}
SKIP = Place("data", "skip() at loader.py:50")
LAUNCHED = [rank_state(rank, run_uid=f"new-{rank}", steps=500) for rank in range(4)]
KILLED = [killed(rank, steps=101) for rank in range(4)]
PASSES = {  # the ranks of each pass with the frames of their stacks, and what is learned
    "its ranks have not gone on": ([(pause(2.0), {}), (pause(6.2), FRAMES)], {}),
    "its ranks have gone on": ([(pause(2.0), {}), (pause(6.2), FRAMES), (moving(), {})], {PLACE: 6.2}),
    "its last pass has no stack": ([(pause(2.0), FRAMES), (pause(6.2), {}), (moving(), {})], {PLACE: 6.2}),
    "its passes have stacks of two places": (
        [(pause(2.0), FRAMES), (pause(6.2), {2: SKIP.frame}), (moving(), {})],
        {PLACE: 6.2, SKIP: 6.2},
    ),
    "no pass has a stack": ([(pause(6.2), {}), (moving(), {})], {}),
    "a second pause follows at once": (
        [(pause(6.2), FRAMES), (pause(3.0, steps=101), {2: SKIP.frame}), (moving(102), {})],
        {PLACE: 6.2, SKIP: 3.0},
    ),
    "a rank died": ([(pause(6.2), FRAMES), ([*moving()[:3], KILLED[3]], {}), (KILLED, {})], {}),
    "another launch follows": ([(pause(6.2), FRAMES), (LAUNCHED, {})], {}),
    "a rank has not finished its step": ([(pause(6.2), FRAMES), ([*moving()[:3], rank_state(3, steps=100)], {})], {}),
    "every rank has finished a step": (
        [(pause(6.2), FRAMES), ([*moving()[:3], rank_state(3, steps=100)], {}), (moving(102), {})],
        {PLACE: 6.2},
    ),
}


@pytest.mark.parametrize(("passes", "learned"), PASSES.values(), ids=PASSES)
def test_pause_is_recorded_if_all_ranks_of_the_launch_go_on(scene: Scene, passes, learned) -> None:
    for ranks, frames in passes:
        scene.make_pass(*ranks, frames=frames)
    assert scene.learned() == learned


def test_one_pause_has_at_most_as_many_places_as_a_name(scene: Scene) -> None:
    for line in range(MAX_PLACES + 9):
        scene.make_pass(*pause(6.2), frames={2: f"read() at loader.py:{line}"})
    scene.make_pass(*moving())
    assert len(scene.learned()) == MAX_PLACES
    assert Place("data", f"read() at loader.py:{MAX_PLACES + 8}") in scene.learned(), "the last one"


@pytest.mark.parametrize("place", [PLACE, SKIP])
def test_next_pause_in_one_of_the_places_is_info(scene: Scene, place: Place) -> None:
    for frames in (FRAMES, {2: SKIP.frame}):
        scene.make_pass(*pause(6.2), frames=frames)
    scene.make_pass(*moving())
    (finding,) = Stall().detect(scene.make_pass(*pause(6.2, steps=101), frames={2: place.frame}))
    assert finding.severity == "info"


def test_pause_is_recorded_once(scene: Scene) -> None:
    scene.make_pass(*pause(6.2), frames=FRAMES)
    for steps in range(101, 105):
        job = scene.make_pass(*moving(steps))
    assert [healed.number for healed in job.pauses] == [1]


def test_other_launches_of_the_name_know_the_pause(scene: Scene) -> None:
    scene.make_pass(*(replace(r, labels={"name": "ranker"}) for r in pause(6.2)), frames=FRAMES)
    scene.make_pass(*moving(labels={"name": "ranker"}))
    later = snapshot(
        *(rank_state(rank, job_id="job-2", run_uid=f"new-{rank}", labels={"name": "ranker"}) for rank in range(4))
    )
    assert [healed.place for healed in scene.recorder.pauses(later)] == [PLACE]


def test_next_run_of_a_script_knows_the_pause(scene: Scene) -> None:
    run = {"owner": 7, "program": "train-aaaaaa-111111"}
    scene.make_pass(*pause(6.2, **run), frames=FRAMES)
    scene.make_pass(*moving(**run))

    def known(number: int = 4, **changes: object) -> list[Place]:
        fields = {"job_id": "job-2", "world_size": number, **run, **changes}
        later = snapshot(*(rank_state(rank, **fields) for rank in range(number)))
        return [healed.place for healed in scene.recorder.pauses(later)]

    assert known(program="train-aaaaaa-222222") == [PLACE]
    assert known(owner=8) == known(program="train-bbbbbb-111111") == known(8) == []


def test_stall_that_a_process_state_proved_is_no_pause(scene: Scene) -> None:
    """After SIGCONT the ranks are past their leases for a moment more."""
    scene.make_pass(stopped(2, 9.0), *(waiting(rank, 9.0) for rank in (0, 1, 3)))
    scene.make_pass(*pause(9.2), frames=FRAMES)
    scene.make_pass(*moving())
    assert scene.learned() == {}
    scene.make_pass(*pause(4.0, steps=101), frames=FRAMES)
    scene.make_pass(*moving(102))
    assert scene.learned() == {PLACE: 4.0}
