"""Is what should watch the jobs armed, or silently inert? Each check says what it tried and what to do.

Nothing is taken on trust: a box is really allocated in the box directory, the boxes that are there are really read, and
a page's way is followed from the rule to the receiver it ends in.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from zmon.doctor import cluster, node, paging, prometheus, rules
from zmon.doctor.check import Check
from zmon.doctor.torch_versions import installed_torch, torch_version

__all__ = ["Check", "examine", "examine_cluster"]


async def examine(box_dir: Path, agent: str, hub: str, history: str) -> list[Check]:
    """Every check, in the order in which things depend on each other. `agent`, `hub`, `history`: base URLs."""
    async with aiohttp.ClientSession() as session:
        of_agent, of_cluster = await asyncio.gather(
            node.sources(session, agent, box_dir), _cluster(session, hub, history)
        )
    of_node = [torch_version(installed_torch()), node.room_for_boxes(box_dir), *node.boxes(box_dir)]
    return [*of_node, *of_agent, *of_cluster]


async def examine_cluster(hub: str, history: str) -> list[Check]:
    """Those that can be made from anywhere: hub, Prometheus, rules, pager."""
    async with aiohttp.ClientSession() as session:
        return await _cluster(session, hub, history)


async def _cluster(session: aiohttp.ClientSession, hub: str, history: str) -> list[Check]:
    seen, told = await asyncio.gather(cluster.ask(session, hub), prometheus.ask(session, history))
    checks = cluster.checks(seen)
    if isinstance(told, Check):
        return [*checks, told]
    checks += [*prometheus.checks(told, seen.hosts), *rules.checks(rules.shipped(), told)]
    if not told.alertmanagers:
        return [*checks, paging.NOBODY]
    answers = await asyncio.gather(*(paging.ask(session, url) for url in told.alertmanagers))
    for answer in answers:
        checks += [answer] if isinstance(answer, Check) else paging.checks(answer, seen.jobs, told.up_seconds)
    return checks
