"""The discovery of agents, which come and go.

A source of targets is a file that Prometheus reads too, a name in DNS, a Prometheus, or the pods of a namespace in
Kubernetes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing

import aiohttp

from zmon.errors import UsageError, ZmonError
from zmon.format import counted, duration
from zmon.hub.discovery.dns import DnsTargets, SrvTargets
from zmon.hub.discovery.file_sd import FileTargets
from zmon.hub.discovery.kubernetes import KubernetesTargets
from zmon.hub.discovery.prometheus import PrometheusTargets
from zmon.hub.discovery.target import Answer, TargetSource
from zmon.schema.http_config import HttpConfig
from zmon.web.kubernetes.agent_pods import pod_selection
from zmon.web.kubernetes.api_server import ApiServer, in_cluster

log = logging.getLogger("zmon.hub")

_LEFT_OUT = "all sources"  # in place of the name of a source, for the agents beyond the maximum number
HOLD_SECONDS = 300.0  # a list that is being written, or a DNS server that starts, is complete again by then
_LEAST_SHARE = 0.5  # a list that has a smaller share of its former agents is held
_SCHEMES = ("http://", "https://")
_HELP = (
    "Write http://NODE:9780 or file:PATH or dns:NAME:PORT or srv:NAME or prometheus:URL or "
    "kubernetes:NAMESPACE/SELECTOR (--agents-kubernetes if the selector has a comma)"
)


class Discovery:
    """All sources of targets, each with its last answer.

    If a source fails, its last targets stay. If it loses most of its targets at once, they stay for a while.
    """

    def __init__(self, sources: Sequence[TargetSource]) -> None:
        self._sources = sources
        self._targets: dict[str, tuple[str, ...]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}  # source whose list is held → when the list is used
        self._publish: Callable[[tuple[str, ...]], None] = lambda targets: None
        self.errors: dict[str, str] = {}  # by source, why its last answer is not used

    @property
    def targets(self) -> tuple[str, ...]:
        """The URLs of all agents, each once."""
        return tuple(dict.fromkeys(url for source in self._sources for url in self._targets.get(source.name, ())))

    @property
    def is_complete(self) -> bool:
        """True once every source has named its agents."""
        return all(source.name in self._targets for source in self._sources)

    async def run(self, session: aiohttp.ClientSession, publish: Callable[[tuple[str, ...]], None]) -> None:
        """Follow every source, for ever, and publish the targets after each answer."""
        self._publish = publish
        await asyncio.gather(*(self._follow(source, session) for source in self._sources))

    def note_left_out(self, number: int) -> None:
        """Record how many agents are not asked, because the hub has no open files for them."""
        reason = "because a hub reserves open files for no more. Use another hub"
        self._note(_LEFT_OUT, f"not asked: {counted(number, 'agent')}, {reason}" if number > 0 else "")

    async def _follow(self, source: TargetSource, session: aiohttp.ClientSession) -> None:
        async with aclosing(source.follow(session)) as answers:
            async for answer in answers:
                self._record(source.name, answer)
                self._publish(self.targets)

    def _record(self, source: str, answer: Answer) -> None:
        """Use the targets of an answer. After an error, or if most targets are missing, the earlier ones stay."""
        if isinstance(answer, ZmonError):
            self._end_hold(source)
            self._note(source, str(answer))
            return
        known = self._targets.get(source, ())
        if len(answer) < _LEAST_SHARE * len(known):
            self._hold(source, answer)
            return
        self._end_hold(source)
        self._note(source, "" if answer else "it names no agent")
        if answer != known:
            log.info("%s has %s", source, counted(len(answer), "agent"))
        self._targets[source] = answer

    def _hold(self, source: str, answer: tuple[str, ...]) -> None:
        """Keep the agents that a list no longer names, until it has been short for five minutes."""
        known = self._targets[source]
        if (timer := self._timers.pop(source, None)) is None:
            line = f"it names {counted(len(answer), 'agent')} instead of {len(known)}: the others are asked for"
            self._note(source, f"{line} {duration(HOLD_SECONDS)} more, in case the list is incomplete")
            due = asyncio.get_running_loop().time() + HOLD_SECONDS
        else:
            due = timer.when()
            timer.cancel()

        def use_list() -> None:
            self._targets[source] = ()  # then no list is too short for `_record`
            self._record(source, answer)
            self._publish(self.targets)

        self._timers[source] = asyncio.get_running_loop().call_at(due, use_list)

    def _end_hold(self, source: str) -> None:
        if timer := self._timers.pop(source, None):
            timer.cancel()

    def _note(self, source: str, error: str) -> None:
        """Record why the last answer of a source is not used; empty if it is used."""
        if not error:
            self.errors.pop(source, None)
            return
        if self.errors.get(source) != error:
            log.error("%s: %s", source, error)
        self.errors[source] = error


def agents(
    words: Sequence[str],
    scheme: str,
    prometheus: HttpConfig | None = None,
    cluster: Callable[[], ApiServer] = in_cluster,
) -> tuple[tuple[str, ...], tuple[TargetSource, ...]]:
    """Return the URLs and the sources that `--agents` names. Raises UsageError.

    `scheme`: http or https, for targets that do not say it; `prometheus`: how to log in to a Prometheus; `cluster`:
    returns the API server of this Kubernetes cluster.
    """
    if not words:
        raise UsageError("--agents names no agent", "", _HELP)
    urls = tuple(word.rstrip("/") for word in words if word.startswith(_SCHEMES))
    return urls, tuple(_source(word, scheme, prometheus, cluster) for word in words if not word.startswith(_SCHEMES))


def _source(word: str, scheme: str, prometheus: HttpConfig | None, cluster: Callable[[], ApiServer]) -> TargetSource:
    """Return the source that a word of `--agents` names. Raises UsageError."""
    kind, _, rest = word.partition(":")
    name, _, port = rest.rpartition(":")
    if kind == "file" and rest:
        return FileTargets(rest, scheme)
    if kind == "dns" and name and port.isdecimal():
        return DnsTargets(name, int(port), scheme)
    if kind == "srv" and rest:
        return SrvTargets(rest, scheme)
    if kind == "prometheus" and rest.startswith(_SCHEMES):
        return PrometheusTargets(rest.rstrip("/"), prometheus)
    if kind == "kubernetes" and (pods := pod_selection(rest)):
        return KubernetesTargets(pods, scheme, cluster())
    raise UsageError(f"--agents {word!r} names no agent", "", _HELP)


__all__ = ["Discovery", "TargetSource", "agents"]
