"""The begins of the ends of ranks: whether any of thousands certainly began to end before a given rank. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from zmon.job.own_death import began_seconds
from zmon.schema.rank import RankState


class Beginnings:
    """When some ranks began to end, so that no rank must be compared with each of them.

    Last words of one host have exact times. Otherwise ages that differ by less than some time prove nothing.
    """

    def __init__(self, ranks: Iterable[RankState]) -> None:
        self._first_words: dict[str, float] = {}  # host → the earliest last words, as unix time
        self._oldest: dict[str, float] = {}  # host → the largest age
        self._oldest_wordless: dict[str, float] = {}  # host → the largest age of a rank without last words
        for state in ranks:
            host, age = state.host, began_seconds(state)
            self._oldest[host] = max(age, self._oldest.get(host, -inf))
            if state.last_words is None:
                self._oldest_wordless[host] = max(age, self._oldest_wordless.get(host, -inf))
            else:
                self._first_words[host] = min(state.last_words.time, self._first_words.get(host, inf))
        self._hosts = sorted(self._oldest, key=lambda host: -self._oldest[host])[:2]

    def precede(self, state: RankState, together_seconds: float) -> bool:
        """Return True if one of the ranks certainly began to end before this one."""
        host, words = state.host, state.last_words
        if words is not None and self._first_words.get(host, inf) < words.time:
            return True
        if words is None:  # its host says nothing more exact than its age
            oldest = max((self._oldest[each] for each in self._hosts), default=-inf)
        else:
            oldest = max((self._oldest[each] for each in self._hosts if each != host), default=-inf)
            oldest = max(oldest, self._oldest_wordless.get(host, -inf))
        return oldest > began_seconds(state) + together_seconds
