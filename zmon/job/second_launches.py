"""Find the launches that a user started under the job id of another launch that lives: each is a job of its own.

Pure. On one host the ranks find out by themselves and take another id (zmon/box/living_launch.py). Of launches on
different hosts, only the hub knows both. Two launches that both live are two jobs if they have a rank with the same
number, or if their world sizes differ. There is one exception: a launch that began after the other had lost a rank has
replaced it. A rank that has left its last words does not count as living.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from zmon.job.rank_end import launcher_of
from zmon.job.restarts import seconds_since_start
from zmon.job.timeline import lives, was_gone_before
from zmon.schema.rank import RankState

Launch = Sequence[RankState]
UserJob = tuple[str, int]  # job id and uid


class SecondLaunches:
    """The second launches of each user's job id, by launch id; a launch stays one while an agent reports it."""

    def __init__(self) -> None:
        self._second_ids: dict[UserJob, set[str]] = {}

    def update(
        self, jobs: Mapping[UserJob, Collection[RankState]], silent: Collection[str] = ()
    ) -> Mapping[UserJob, set[str]]:
        """Return the launch ids of second launches, given the ranks of each job id and user.

        Whether ranks live is unknown on `silent`, the hosts of agents that do not answer.
        """
        second_ids: dict[UserJob, set[str]] = {}
        for job, states in jobs.items():
            if job in self._second_ids or len({state.launch_id for state in states}) > 1:
                ids = _ids_of_second_launches(states, self._second_ids.get(job, set()), silent)
                if ids:
                    second_ids[job] = ids
        self._second_ids = second_ids
        return second_ids


def _ids_of_second_launches(states: Collection[RankState], known: Set[str], silent: Collection[str]) -> set[str]:
    """Return the ids of the launches that began beside an older one; `known` are those of the last update."""
    launches = _launches(state for state in states if state.launch_id)
    second_ids = {state.launch_id for state in states if state.has_second_id or state.launch_id in known}
    first_launches: list[Launch] = []
    for launch in sorted(launches, key=lambda launch: max(map(seconds_since_start, launch)), reverse=True):
        ids = {state.launch_id for state in launch}
        if ids & second_ids or any(_lives_beside(older, launch, silent) for older in first_launches):
            second_ids |= ids
        else:
            first_launches.append(launch)
    return second_ids


def _launches(states: Iterable[RankState]) -> list[list[RankState]]:
    """Return the ranks by launch. The ids that one launcher gave to its attempts count as one launch."""
    by_id: defaultdict[str, list[RankState]] = defaultdict(list)
    ids_of_launcher: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)  # launcher → attempt → id
    for state in states:
        by_id[state.launch_id].append(state)
        ids_of_launcher[launcher_of(state)].setdefault(state.attempt, state.launch_id)
    names = {launch_id: launch_id for launch_id in by_id}
    for ids in ids_of_launcher.values():
        joined = {names[launch_id] for launch_id in ids.values()}
        names = {launch_id: min(joined) if name in joined else name for launch_id, name in names.items()}
    launches: defaultdict[str, list[RankState]] = defaultdict(list)
    for launch_id, ranks in by_id.items():
        launches[names[launch_id]] += ranks
    return list(launches.values())


def _lives_beside(older: Launch, younger: Launch, silent: Collection[str]) -> bool:
    """Return True if both launches live, cannot be parts of one, and the younger has not replaced the older."""
    older_ranks = _living_ranks(older, silent)
    younger_ranks = _living_ranks(younger, silent)
    if not older_ranks or not younger_ranks:
        return False
    has_same_size = {size for size, _ in older_ranks} == {size for size, _ in younger_ranks}
    if has_same_size and not older_ranks & younger_ranks:
        return False
    oldest = max(younger, key=seconds_since_start)
    return not any(was_gone_before(state, oldest) for state in older)


def _living_ranks(launch: Launch, silent: Collection[str]) -> set[tuple[int, int]]:
    """Return the world size and the number of each rank that lives and is not about to end."""
    return {(r.world_size, r.rank) for r in launch if lives(r) and r.last_words is None and r.host not in silent}
