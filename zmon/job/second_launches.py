"""Finds the launches that a user started under the job id of another launch that lives: each is a job of its own.

Pure. On one host the ranks find out by themselves and take another id (zmon/box/living_launch.py). Launches on
different hosts see only the hub. They are two if both live and have a rank with the same number, or another world size.
A launch that began when the other had lost a rank has replaced it, and ranks that wait for their end do not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from zmon.job.rank_end import launcher_of
from zmon.job.restarts import seconds_since_start
from zmon.job.timeline import lives, was_gone_before
from zmon.schema.rank import RankState

Launch = Sequence[RankState]


class SecondLaunches:
    """The second launches of each user's job id, by launch id; a launch stays one while an agent reports it."""

    def __init__(self) -> None:
        self._second: dict[tuple[str, int], set[str]] = {}

    def update(
        self, jobs: Mapping[tuple[str, int], Collection[RankState]], silent: Collection[str] = ()
    ) -> Mapping[tuple[str, int], set[str]]:
        """Return the launch ids of second launches, given the ranks of each job id and user.

        Whether ranks live is unknown on `silent`, the hosts of agents that do not answer.
        """
        self._second = {
            job: second
            for job, states in jobs.items()
            if len({state.launch_id for state in states}) > 1 or job in self._second
            if (second := _second(states, self._second.get(job, set()), silent))
        }
        return self._second


def _second(states: Collection[RankState], known: Collection[str], silent: Collection[str]) -> set[str]:
    launches = _launches(state for state in states if state.launch_id)
    second = {state.launch_id for state in states if state.has_second_id or state.launch_id in known}
    first_launches: list[Launch] = []
    for launch in sorted(launches, key=lambda launch: max(map(seconds_since_start, launch)), reverse=True):
        ids = {state.launch_id for state in launch}
        if ids & second or any(_lives_beside(other, launch, silent) for other in first_launches):
            second |= ids
        else:
            first_launches.append(launch)
    return second


def _launches(states: Iterable[RankState]) -> list[list[RankState]]:
    """Return the ranks by launch; a launcher that starts ranks again may give their launch another id."""
    by_id: defaultdict[str, list[RankState]] = defaultdict(list)
    attempts: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for state in states:
        by_id[state.launch_id].append(state)
        attempts[launcher_of(state)].setdefault(state.attempt, state.launch_id)
    names = {launch_id: launch_id for launch_id in by_id}
    for ids in attempts.values():
        joined = {names[launch_id] for launch_id in ids.values()}
        names = {launch_id: min(joined) if name in joined else name for launch_id, name in names.items()}
    launches: defaultdict[str, list[RankState]] = defaultdict(list)
    for launch_id, ranks in by_id.items():
        launches[names[launch_id]] += ranks
    return list(launches.values())


def _lives_beside(older: Launch, younger: Launch, silent: Collection[str]) -> bool:
    ranks, others = (
        {(r.world_size, r.rank) for r in launch if lives(r) and r.last_words is None and r.host not in silent}
        for launch in (older, younger)
    )
    if not ranks or not others:
        return False
    if not ranks & others and {size for size, _ in ranks} == {size for size, _ in others}:
        return False
    oldest = max(younger, key=seconds_since_start)
    return not any(was_gone_before(state, oldest) for state in older)
